"""Workload `scale`: the driver of a job with up to a thousand subtasks, simulated without Spark."""
