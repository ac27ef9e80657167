"""Visits of a site: a job that reads Kafka, and writes Kafka and Delta tables."""
