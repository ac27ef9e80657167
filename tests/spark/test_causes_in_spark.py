"""Causes of failures that only real Spark shows: those in Spark's texts, and whether tasks may show records."""

import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from support import Count, Input, count_job

from state_engine.causes import HIDDEN
from state_engine.errors import LakestateError

pytestmark = pytest.mark.spark


class Leaving(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        sys.exit(f"no place for {value.k} \ud800 " + "x" * 20_000)


class Dying(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Lacking(Count):
    """A function that only the driver can load."""

    def __reduce__(self) -> Any:
        return _of_a_module, ("lakestate_no_such_module",)


def _of_a_module(name: str) -> Any:
    __import__(name)
    return Count()


def failure(spark: Any, tmp_path: Path, name: str, function: Any, **options: Any) -> LakestateError:
    source = Input(tmp_path / "in").add_many(1)
    client = count_job(source.stream(spark), tmp_path / "root", name, function=function, **options).start(
        available_now=True
    )
    with pytest.raises(LakestateError) as caught:
        client.await_termination(120)
    return caught.value


def test_a_function_that_leaves_is_named_without_records(spark: Any, tmp_path: Path) -> None:
    error = failure(spark, tmp_path, "leaves", Leaving(), show_records=False)
    assert type(error).__name__ == "UserFunctionError"
    assert f"process_element() raised SystemExit: no place for {HIDDEN} \\ud800 xxx" in error.message
    assert "Operator 'count'" in error.message
    assert f"Key: {HIDDEN}. Record: {HIDDEN}." in error.message
    assert len(str(error)) < 8_000


def test_a_module_that_the_workers_lack_is_named_with_the_operator(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lakestate_no_such_module", types.ModuleType("lakestate_no_such_module"))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    error = failure(spark, tmp_path, "lacks", Lacking())
    assert type(error).__name__ == "UserFunctionError"
    assert error.operator == "count"
    assert error.action.startswith("Give the workers the modules")
    assert "The function of operator 'count' cannot be loaded by a worker" in error.message
    assert "ModuleNotFoundError: No module named 'lakestate_no_such_module'" in error.message


def test_a_worker_that_dies_is_reported(spark: Any, tmp_path: Path) -> None:
    message = failure(spark, tmp_path, "dies", Dying()).message
    assert "with the operators 'count': A Python worker process died. It was killed by SIGKILL" in message
