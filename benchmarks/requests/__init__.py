"""Workload `requests`: what a job in a bucket asks of the store."""
