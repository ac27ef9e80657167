"""Fixtures that every test may use."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]

# The JVMs of the tests, also those of jobs in their own processes, live for seconds: a JVM that compiles less and
# collects garbage on one thread needs half the processor time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")

pytest_plugins = ["selection", "costs", "all_pairs", "memory_folder", "s3_buckets"]  # in tests/plugins

# How many examples Hypothesis tries: `make check` chooses `quick`, `make test-long` chooses `long`. A test with large
# examples, or with parameters as well, uses a part of the number: `settings.default.max_examples // 4`.
settings.register_profile("long", max_examples=200, deadline=None)
settings.register_profile("thorough", max_examples=20, deadline=None)
settings.register_profile("quick", max_examples=15, deadline=None)
settings.load_profile("thorough")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One local session for the whole run; tests that use it are marked `spark`."""
    from state_engine.spark.session.local import local_session

    with contextlib.chdir(ROOT):  # where the JVM stays, even if the first test that needs it is elsewhere
        session = local_session("lakestate-tests", connectors=["kafka"])
    yield session
    session.stop()


def pytest_collection_finish() -> None:
    """Leaves the collected tests to themselves: the garbage collector would walk their 700,000 objects each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Lets libraries find their objects freed at the end: they report the others as leaks."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses a test that uses the session without its mark: `make check` would start a JVM."""
    unmarked = [
        item.nodeid
        for item in items
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("spark") is None
    ]
    if unmarked:
        raise pytest.UsageError(
            "these tests use the fixture `spark` and need @pytest.mark.spark: " + ", ".join(unmarked)
        )
