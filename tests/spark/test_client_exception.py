"""A job's exception is the first error that was recorded, also for a caller that reads it while the job fails."""

from types import SimpleNamespace
from typing import Any

import pytest

from state_engine.errors import LakestateError
from state_engine.spark.driver.client import JobClient
from state_engine.spark.driver.running_query import RunningQuery


class EndingQuery:
    """A query that ends while `isActive` is called: the batch records its error, then Spark stops."""

    def __init__(self, client, failure, told):
        self._client, self._failure, self._told = client, failure, told

    @property
    def isActive(self):
        if self._failure is not None:
            self._client._error = self._failure
        return False

    def exception(self):
        return self._told


def session() -> Any:
    """Returns a session that is not stopped."""
    context = SimpleNamespace(isStopped=lambda: False)
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)))


@pytest.fixture
def client():
    """A client that has only the attributes that `exception` reads."""
    client = object.__new__(JobClient)
    client._stopping, client._error = False, None
    return client


@pytest.mark.parametrize("told", [RuntimeError("as Spark has it"), None])
def test_an_error_that_is_noted_while_spark_is_asked_stays(client, told):
    failure = LakestateError("the function raised", action="Mend it.")
    client._query = RunningQuery(EndingQuery(client, failure, told), session(), "flights")
    assert client.exception is failure
    assert client.exception is failure


def test_what_spark_says_counts_where_nothing_was_noted(client):
    told = RuntimeError("the JVM is gone")
    client._query = RunningQuery(EndingQuery(client, None, told), session(), "flights")
    assert client.exception is told
