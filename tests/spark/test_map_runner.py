"""`map` between operators, without Spark: how it changes barriers when the author's function fails."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api.output_tag import columns_type
from state_engine.log.barriers import Barrier
from state_engine.log.records import Ack, Failure
from state_engine.spark.wire.rows import CONTROL, barrier_mark, barrier_of_mark, group_of_mark
from state_engine.spark.worker.map_runner import MapRunner

COLUMNS = columns_type("n bigint", "the test")
SCHEMA = pa.schema([("n", pa.int64()), (CONTROL, pa.binary())])
IN_FRONT = Ack(uid="zero", subtask=0, attempt="z", records_in=1, records_out=1)
OWN = Ack(uid="one", subtask=3, attempt="a", records_in=3, records_out=3)
FULL = Barrier(uid="one", subtask=3, attempt="a", acks=(IN_FRONT, OWN))
SLIM = Barrier(uid="one", subtask=3, attempt="a")


def batch(records: Sequence[int], barriers: Sequence[Barrier] = ()) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [{"n": n, CONTROL: None} for n in records]
    rows += [{"n": None, CONTROL: barrier_mark(7, barrier)} for barrier in barriers]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def run(
    function: Callable[[Any], Any], *batches: pa.RecordBatch, columns: Any = COLUMNS
) -> tuple[list[int], list[Barrier]]:
    """Returns the records and the barriers that come out."""
    out = [row for made in MapRunner(function, COLUMNS, columns)(batches) for row in made.to_pylist()]
    barriers = [row for row in out if row[CONTROL] is not None]
    assert all(row["n"] is None and group_of_mark(row[CONTROL]) == 7 for row in barriers)
    return [row["n"] for row in out if row[CONTROL] is None], [barrier_of_mark(row[CONTROL]) for row in barriers]


def divide(row: Any) -> Any:
    return (6 // row.n,)


def test_barriers_pass_untouched() -> None:
    assert run(divide, batch([1, 2]), batch([3], [FULL, SLIM])) == ([6, 3, 2], [FULL, SLIM])


def test_what_the_function_raises_is_in_the_subtasks_own_ack() -> None:
    records, (full, slim) = run(divide, batch([1, 2]), batch([3, 0, 1]), batch([6], [FULL, SLIM]))
    assert records == [6, 3]
    assert slim == SLIM
    assert full.acks[0] == IN_FRONT
    failure = full.acks[1].failure
    assert failure is not None
    assert (failure.kind, failure.uid, failure.subtask) == ("user_function", "one", 3)
    assert "map(divide) on its output raised ZeroDivisionError" in failure.message
    assert "n=0" in failure.record
    assert "6 // row.n" in failure.traceback
    assert failure.action


def test_a_row_is_what_it_was_when_the_function_returned_it() -> None:
    row = [0]

    def add(record: Any) -> Any:
        row[0] += record.n
        return row

    assert run(add, batch([1, 2, 3])) == ([1, 3, 6], [])


def test_a_failure_of_the_subtask_itself_stays() -> None:
    failed = Ack(
        uid="one",
        subtask=3,
        attempt="a",
        records_in=3,
        records_out=3,
        failure=Failure(kind="user_function", uid="one", subtask=3, message="the operator"),
    )
    barrier = Barrier(uid="one", subtask=3, attempt="a", acks=(failed,))
    assert run(divide, batch([0], [barrier]))[1] == [barrier]


def test_of_two_maps_the_first_failure_stays() -> None:
    def always(row: Any) -> Any:
        raise ValueError("a consequence")

    first = MapRunner(divide, COLUMNS, COLUMNS)([batch([1]), batch([0], [FULL])])
    [full] = run(always, *first)[1]
    assert full.acks[1].failure is not None
    assert "divide" in full.acks[1].failure.message


@pytest.mark.parametrize("wrong", [("text",), (1, 2), 7])
def test_a_row_of_another_type_is_reported_too(wrong: Any) -> None:
    records, [full] = run(lambda row: wrong, batch([1, 2], [FULL]))
    assert records == []
    failure = full.acks[1].failure
    assert failure is not None
    assert failure.kind == "output_type"
    assert "n:bigint" in failure.message
    assert failure.record


def test_long_records_are_shortened() -> None:
    columns = columns_type("s string", "the test")
    rows = pa.RecordBatch.from_pylist(
        [{"s": "x" * 9_000, CONTROL: None}, {"s": None, CONTROL: barrier_mark(7, FULL)}],
        schema=pa.schema([("s", pa.string()), *list(SCHEMA)[1:]]),
    )
    [made] = MapRunner(divide, columns, columns)([rows])
    [control] = made.column(CONTROL).to_pylist()
    failure = barrier_of_mark(control).acks[1].failure
    assert failure is not None
    assert len(failure.record) == 200


def test_a_function_that_calls_sys_exit_is_reported_by_the_ack() -> None:
    def leaves(row: Any) -> Any:
        raise SystemExit("gone")

    records, [full] = run(leaves, batch([1], [FULL]))
    assert records == []
    assert full.acks[1].failure is not None
    assert full.acks[1].failure.message == "map(" + leaves.__qualname__ + ") on its output raised SystemExit: gone."
