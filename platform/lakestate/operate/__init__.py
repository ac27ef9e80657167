"""Dagster's sensors, schedules and jobs of one stream: one module per kind."""
