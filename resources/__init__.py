"""Dagster resources: Spark session, state store, job control (import name: `lakestate.resources`)."""
