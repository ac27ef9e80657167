"""Dagster resources: state store, Spark session, job control, REST client (import name: `lakestate.resources`)."""

from state_engine.extras import from_extra

with from_extra("dagster"):
    from lakestate.resources.job_control import JobControlResource
    from lakestate.resources.rest_client import RestClientResource
    from lakestate.resources.spark_session import SparkSessionResource
    from lakestate.resources.state_store import StateStoreResource

__all__ = ["JobControlResource", "RestClientResource", "SparkSessionResource", "StateStoreResource"]
