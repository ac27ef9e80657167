"""Dagster's sensors and schedules of one stream: one module per kind."""
