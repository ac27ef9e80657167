"""A builder that makes no session, since there is no cluster: it keeps what it was given."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession


def given(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    built: list[dict[str, str]] = []
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: built.append(dict(builder._options)))
    for of_this_process in ("_active_spark_context", "_gateway"):
        monkeypatch.setattr(SparkContext, of_this_process, None)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")
    Path("environment.tar.gz").touch()  # in the page's own folder
    yield {}
    first, second = built
    assert first["spark.master"] == second["spark.master"] == "spark://cluster.example:7077"
    assert first["spark.executor.memory"] == "4g"
    assert "kafka-clients" in first["spark.jars"]
    assert second["spark.archives"] == "environment.tar.gz#lakestate-environment"
