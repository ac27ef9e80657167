"""Lakestate: run, watch and operate streaming jobs that store their state in Delta tables."""
