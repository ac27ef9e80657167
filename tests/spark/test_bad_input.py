"""A job that fails while it runs: a named error, nothing half written, and an unchanged position."""

import threading
from pathlib import Path
from typing import Any

import pytest
from support import COUNTS, Count, Input, Record, assert_counts, count_job, newest, run_all

from state_engine.api import KeyedProcessFunction, ListStateDescriptor, Types, ValueStateDescriptor
from state_engine.errors import (
    DuplicateStateError,
    JobDefinitionError,
    LakestateError,
    OutputTypeError,
    StateTypeChangedError,
    UserFunctionError,
)
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


class Poisoned(Count):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if value.n == 100:
            raise ValueError("cannot digest this")
        return super().process_element(value, ctx)


def fails(job: Any, error: type[LakestateError], match: str) -> Any:
    """Runs a job that must fail, and returns its error."""
    client = job.start(available_now=True)
    with pytest.raises(error, match=match) as caught:
        client.await_termination(120)
    assert caught.value.action
    assert client.state == "FAILED"
    assert isinstance(client.exception, error)
    return client


def test_a_poison_record_is_named_and_read_again_once_the_function_is_mended(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    bad = source.all[100]

    def job(function: Any):
        return count_job(source.stream(spark), tmp_path / "root", "poison", function=function)

    client = fails(job(Poisoned()), UserFunctionError, "cannot digest this")
    text = str(client.exception)
    assert f"n=100, k={bad.k!r}" in text
    assert f"Key: {bad.k!r}" in text
    assert "'count'" in text
    assert "raise ValueError" in text
    assert len(client.epochs) == 1
    assert newest(tmp_path / "root", "poison").epoch == 2

    fails(job(Poisoned()), UserFunctionError, "cannot digest this")
    assert newest(tmp_path / "root", "poison").epoch == 3  # only its claim
    run_all(job(Count()))
    assert_counts(tmp_path / "root", "poison", source.all)


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([("not a number", "k", 1)], "'n'"),
        # All wrong forms of a row are in `tests/runtime/test_output_errors.py`.
        pytest.param([(1, "k")], "3|three|columns|fields", marks=pytest.mark.long),
        pytest.param([{"n": 1, "k": "k", "other": 3}], "other|times", marks=pytest.mark.long),
        pytest.param([(1, "k", 1 << 70)], "'times'", marks=pytest.mark.long),
        pytest.param([7], "7|int", marks=pytest.mark.long),
    ],
)
def test_rows_of_another_type_than_declared(spark, tmp_path: Path, rows: list[Any], named: str) -> None:
    class Wrong(Count):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return rows if value.n == 70 else super().process_element(value, ctx)

    source = Input(tmp_path / "in").add_many(2)
    name = f"wrong-output-{abs(hash(repr(rows)))}"
    client = fails(count_job(source.stream(spark), tmp_path / "root", name, function=Wrong()), OutputTypeError, named)
    assert "bigint" in str(client.exception)
    assert len(client.epochs) == 1
    run_all(count_job(source.stream(spark), tmp_path / "root", name))
    assert_counts(tmp_path / "root", name, source.all)


def test_a_value_that_its_state_does_not_admit(spark, tmp_path: Path) -> None:
    class Wrong(Count):
        def process_element(self, value: Any, ctx: Any) -> Any:
            self.count.update("seven")
            return []

    source = Input(tmp_path / "in")
    source.add([Record(0, "k1", "s", 1)])
    client = fails(
        count_job(source.stream(spark), tmp_path / "root", "wrong-state", function=Wrong()),
        StateTypeChangedError,
        "'count'",
    )
    assert "k1" in str(client.exception)
    assert client.epochs == []


def test_an_open_that_raises_in_the_worker(spark, tmp_path: Path) -> None:
    class Unopened(Count):
        def open(self, runtime_context: Any) -> None:
            super().open(runtime_context)
            raise ConnectionError("no database")

    source = Input(tmp_path / "in").add_many(1)
    fails(
        count_job(source.stream(spark), tmp_path / "root", "unopened", function=Unopened()),
        UserFunctionError,
        "no database",
    )


def test_a_failure_of_the_second_operator_reaches_the_driver(spark, tmp_path: Path) -> None:
    class Second(Poisoned):
        pass

    source = Input(tmp_path / "in").add_many(2)
    job = StreamJob("second-fails", root=str(tmp_path / "root"), parallelism=3)
    first = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="first")
    first.key_by("n").process(Second(), COUNTS, uid="second").sink_to(MemorySink("second-fails"), uid="out")
    client = fails(job, UserFunctionError, "'second'.*cannot digest this")
    assert len(client.epochs) == 1


def test_a_failure_of_the_first_operator_is_the_one_that_is_reported(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    job = StreamJob("first-fails", root=str(tmp_path / "root"), parallelism=3)
    first = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Poisoned(), COUNTS, uid="first")
    first.key_by("n").process(Count(), COUNTS, uid="second").sink_to(MemorySink("first-fails"), uid="out")
    client = fails(job, UserFunctionError, "'first'.*cannot digest this")
    assert len(client.epochs) == 1


def test_one_state_name_with_two_types(spark, tmp_path: Path) -> None:
    class Twice(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_state(ValueStateDescriptor("x", Types.LONG()))
            runtime_context.get_list_state(ListStateDescriptor("x", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            return []

    source = Input(tmp_path / "in").add_many(1)
    with pytest.raises(DuplicateStateError, match="'x'"):
        count_job(source.stream(spark), tmp_path / "root", "twice", function=Twice()).start(available_now=True)
    assert newest(tmp_path / "root", "twice") is None


def test_a_function_that_cannot_travel(spark, tmp_path: Path) -> None:
    class Locked(Count):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    source = Input(tmp_path / "in").add_many(1)
    with pytest.raises(JobDefinitionError, match="cannot be sent") as caught:
        count_job(source.stream(spark), tmp_path / "root", "locked", function=Locked()).start(available_now=True)
    assert "open()" in caught.value.action
