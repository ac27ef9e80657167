"""Dagster resources: state store, Spark session (import name: `lakestate.resources`)."""

from lakestate.resources.spark_session import SparkSessionResource
from lakestate.resources.state_store import StateStoreResource

__all__ = ["SparkSessionResource", "StateStoreResource"]
