"""Dagster assets: checkpoints, savepoints, restored state (import name: `lakestate.assets`)."""
