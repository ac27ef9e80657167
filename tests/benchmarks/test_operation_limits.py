from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from benchmarks.operation_limits import Quotient, Seconds, Share, judge_operations
from benchmarks.operation_model import Operation
from benchmarks.thresholds import Thresholds, judge, load, passed

Rows = Callable[..., Operation]
TWO_SECONDS = Seconds(operation="native savepoint", of="lakestate/native", keys=[10, 50], at_most=2.0)
PAIRED = Share(operation="stream", of="lakestate/with savepoints", keys=[10], figure="paired_ratio", at_least=0.95)
READ = Share(operation="load", of="lakestate/subtask", keys=[10], figure="share_read", parallelism=4, at_most=0.35)
GROWTH = Quotient(
    operation="native savepoint",
    of="lakestate/native",
    to="lakestate/native",
    keys=50,
    to_keys=10,
    figure="median_seconds",
    at_most=4.0,
)
SPEED = Quotient(
    operation="canonical savepoint",
    of="lakestate/process",
    to="spark/delta",
    keys=10,
    figure="rows_per_second",
    at_least=0.5,
)


@pytest.fixture
def row() -> Rows:
    """Makes a row of a native savepoint with ten keys; named fields replace its own."""

    def make(**changes: Any) -> Operation:
        fields: dict[str, Any] = {
            "operation": "native savepoint",
            "engine": "lakestate",
            "form": "native",
            "backend": "heap",
            "keys": 10,
            "value_bytes": 8,
            "parallelism": 2,
            "runs": 20,
            "median_seconds": 1.0,
            "max_seconds": 3.0,
            "results_equal": True,
        }
        return Operation(**{**fields, **changes})

    return make


def test_seconds_are_limited_at_each_number_of_keys(row: Rows) -> None:
    verdicts = judge_operations([TWO_SECONDS], [row(), row(keys=50, median_seconds=2.1)])

    assert [(verdict.measured, verdict.reached) for verdict in verdicts] == [(1.0, True), (2.1, False)]
    assert verdicts[1].name == "native savepoint, 50 keys: median_seconds of lakestate/native at most 2"
    assert not passed(verdicts)


def test_the_limit_itself_is_reached(row: Rows) -> None:
    [verdict, _] = judge_operations([TWO_SECONDS], [row(median_seconds=2.0)])

    assert verdict.reached


def test_another_figure_may_be_limited(row: Rows) -> None:
    longest = msgspec.structs.replace(TWO_SECONDS, figure="max_seconds", keys=[10])

    [verdict] = judge_operations([longest], [row()])

    assert (verdict.measured, verdict.reached) == (3.0, False)


def test_wrong_results_reach_nothing(row: Rows) -> None:
    [verdict, _] = judge_operations([TWO_SECONDS], [row(results_equal=False)])

    assert (verdict.reached, verdict.note) == (False, "wrong results: lakestate/native")


def test_what_was_not_run_is_open(row: Rows) -> None:
    verdicts = judge_operations([TWO_SECONDS, PAIRED, GROWTH], [row()])

    assert [verdict.measured for verdict in verdicts] == [1.0, None, None, None]
    assert passed(verdicts)
    assert judge_operations([TWO_SECONDS], []) == []


@pytest.mark.parametrize(("ratio", "reached"), [(0.949, False), (0.95, True), (1.02, True)])
def test_a_share_has_to_be_large_enough(row: Rows, ratio: float, reached: bool) -> None:
    [verdict] = judge_operations([PAIRED], [row(operation="stream", form="with savepoints", paired_ratio=ratio)])

    assert verdict.reached is reached


def test_a_share_is_of_one_parallelism(row: Rows) -> None:
    loads = [row(operation="load", form="subtask", parallelism=p, share_read=1 / p) for p in (1, 2, 4)]

    [verdict] = judge_operations([READ], loads)

    assert (verdict.measured, verdict.reached) == (0.25, True)
    assert verdict.name == "load at parallelism 4, 10 keys: share_read of lakestate/subtask at most 0.35"


def test_more_keys_are_compared_with_fewer(row: Rows) -> None:
    [verdict] = judge_operations([GROWTH], [row(), row(keys=50, median_seconds=4.5)])

    assert (verdict.measured, verdict.reached) == (4.5, False)
    assert verdict.name.endswith("at most 4 times that of lakestate/native with 10 keys")


@pytest.mark.parametrize("wrong", [None, "process", "delta"])
def test_one_engine_is_compared_with_another(row: Rows, wrong: str | None) -> None:
    rows = [
        row(
            operation="canonical savepoint",
            engine=engine,
            form=form,
            rows_per_second=speed,
            results_equal=form != wrong,
        )
        for engine, form, speed in (("lakestate", "process", 60.0), ("spark", "delta", 100.0))
    ]

    [verdict] = judge_operations([SPEED], rows)

    assert verdict.measured == 0.6
    assert verdict.reached is (wrong is None)


def test_rows_of_other_workloads_are_judged_beside(row: Rows) -> None:
    assert [verdict.reached for verdict in judge(Thresholds(seconds=[TWO_SECONDS]), [row(), row(keys=50)])] == [
        True,
        True,
    ]
    assert judge(Thresholds(seconds=[TWO_SECONDS]), []) == []


def test_the_file_asks_for_what_savepoints_promise() -> None:
    limits = load()

    native = next(limit for limit in limits.seconds if limit.operation == "native savepoint")
    assert (native.keys, native.at_most, native.figure) == ([10_000, 5_000_000], 2.0, "median_seconds")
    paired = next(limit for limit in limits.share if limit.figure == "paired_ratio")
    assert (paired.keys, paired.at_least) == ([10_000, 5_000_000], 0.95)
    grown = next(limit for limit in limits.quotient if limit.operation == "checkpoint")
    assert (grown.of, grown.keys, grown.to_keys, grown.at_most) == ("lakestate/interval", 2_000_000, 200_000, 2.0)
    for limit in [*limits.share, *limits.quotient]:
        assert limit.at_least is not None or limit.at_most is not None
