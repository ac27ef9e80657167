"""Dagster resources: state store (import name: `lakestate.resources`)."""

from lakestate.resources.state_store import StateStoreResource

__all__ = ["StateStoreResource"]
