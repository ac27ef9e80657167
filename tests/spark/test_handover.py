"""How outputs are passed to the operators that read them. No JVM."""

from typing import Any

import pyarrow as pa

from state_engine.api.output_tag import columns_type
from state_engine.epoch.ports import OperatorPlan
from state_engine.key_groups import subtask_of
from state_engine.log.barriers import Barrier
from state_engine.spark.wire.handover import Handover, Reader
from state_engine.spark.wire.rows import CONTROL, PLACE, barrier_of_mark, group_of_mark

MAIN = columns_type("k string, v bigint", "main")
LATE = columns_type("at bigint, note string, size double", "late")
BATCH = pa.RecordBatch.from_pydict({"k": ["a", "b"], "v": [1, 2]})
ASIDE = pa.RecordBatch.from_pydict({"at": [7], "note": ["x"], "size": [0.5]})
DOWN = OperatorPlan(uid="down", parallelism=3, max_parallelism=8)
BARRIERS = [Barrier(uid="up", subtask=1, attempt=str(n)) for n in range(3)]


def handover(*readers: Reader, timed: bool = False) -> Handover:
    return Handover(readers, MAIN, {"late": LATE, "other": MAIN}, timed=timed)


def test_one_reader_gets_the_columns_of_its_output() -> None:
    main = handover(Reader("down"))
    assert (main.shared, main.ddl) == (False, f"k string, v bigint, {CONTROL} binary")
    assert main.records("main", BATCH, 0).to_pydict() == {**BATCH.to_pydict(), CONTROL: [None, None]}
    late = handover(Reader("down", "late"), timed=True)
    assert late.ddl == f"at bigint, note string, size double, __ls_time bigint, {CONTROL} binary"
    timed = ASIDE.append_column("__ls_time", pa.array([9], pa.int64()))
    assert late.records("late", timed, 0).to_pydict() == {**timed.to_pydict(), CONTROL: [None]}
    assert late.marks(BARRIERS, DOWN, [1]).schema.equals(late.records("late", timed, 0).schema)


def test_without_a_reader_only_the_driver_listens() -> None:
    assert (handover().ddl, handover().outputs) == (f"{CONTROL} binary", ())


def test_several_readers_of_one_output_take_its_columns_once() -> None:
    both = handover(Reader("one"), Reader("two"))
    assert both.ddl == f"k string, v bigint, {PLACE} int, {CONTROL} binary"
    assert both.records("main", BATCH, 5).column(PLACE).to_pylist() == [5, 5]
    assert both.places_of(1, 3) == {"main": 1}
    assert both.selected("main") == ["`k` as `k`", "`v` as `v`", CONTROL]


def test_outputs_share_columns_by_their_types_and_lie_apart() -> None:
    shared = handover(Reader("one"), Reader("two", "late"), Reader("three", "other"))
    assert shared.columns.names == ("k", "v", "__ls_2")
    assert shared.places_of(1, 3) == {"main": 1, "late": 4, "other": 7}
    rows = shared.records("late", ASIDE, 4).to_pylist()
    assert rows == [{"k": "x", "v": 7, "__ls_2": 0.5, PLACE: 4, CONTROL: None}]
    assert shared.selected("late") == ["`v` as `at`", "`k` as `note`", "`__ls_2` as `size`", CONTROL]
    assert shared.records("main", BATCH, 1).column("__ls_2").to_pylist() == [None, None]


def test_every_output_has_a_barrier_for_every_subtask_of_its_readers() -> None:
    shared = handover(Reader("one"), Reader("two", "late"), timed=True)
    marks: list[dict[str, Any]] = shared.marks(BARRIERS, DOWN, [1, 4]).to_pylist()
    assert [mark[PLACE] for mark in marks] == [1, 1, 1, 4, 4, 4]
    for number, mark in enumerate(marks):
        barrier = barrier_of_mark(mark[CONTROL])
        assert barrier is not None
        assert barrier.attempt == str(number % 3)
        assert subtask_of(group_of_mark(mark[CONTROL]), 3, 8) == number % 3
    assert {mark[name] for mark in marks for name in ("k", "v", "__ls_2", "__ls_time")} == {None}
