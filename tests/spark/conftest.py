"""Fixtures of the tests that run jobs on Spark; shared code is in `support.py`."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("branches", "chained", "enrichment", "shared_jobs", "support")


@pytest.fixture(autouse=True, scope="module")
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules, so the functions and classes of a test are pickled by value."""
    import branches
    import chained
    import enrichment
    import shared_jobs
    import support
    from pyspark import cloudpickle

    modules = [support, enrichment, branches, chained, shared_jobs, request.module]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(autouse=True)
def sinks_in_memory_are_empty() -> None:
    """Rows of memory sinks outlive a job, under the sink's name; no test may see the rows of another test."""
    from state_engine.spark import MemorySink

    MemorySink.clear_all()


@pytest.fixture
def started() -> Iterator[Callable[[Any], Any]]:
    """Takes clients, and stops them at the end of the test, even if the test fails."""
    clients: list[Any] = []

    def take(client: Any) -> Any:
        clients.append(client)
        return client

    yield take
    for client in clients:
        if client.query is not None and client.query.isActive:
            client.stop()
