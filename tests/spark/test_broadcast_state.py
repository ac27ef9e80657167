"""Broadcast state in real streams: changing rules over restarts, rescales and publishes, and subtasks that differ."""

from pathlib import Path
from typing import Any

import pytest
from shared_jobs.states import MATCHED, RULES, Highest, Match
from support import Input, by_n, newest, records, run_all

from state_engine.api import (
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import BroadcastDivergenceError, DuplicateStateError, JobDefinitionError, UserFunctionError
from state_engine.inspect import read_state
from state_engine.savepoint import trigger_savepoint, validate_savepoint
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


class Diverging(Match):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value.name, self.subtask)


class Writing(Match):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put("x", 1)


def match_job(spark: Any, folder: Path, name: str, function: Any = None, **options: Any) -> StreamJob:
    data, rules = (Input(folder / side) for side in ("data", "rules"))
    job = StreamJob(name, root=str(folder / "root"), **{"parallelism": 2, **options})
    elements = job.from_stream(rules.stream(spark)).select("n as number", "sub as name", "v").broadcast(RULES)
    keyed = job.from_stream(data.stream(spark)).key_by("k", order_by=["n"])
    matched = keyed.connect(elements).process(function or Match(), MATCHED, uid="match")
    matched.sink_to(MemorySink(name), uid="out")
    return job


def add(folder: Path, side: str, epoch: int, count: int) -> list[Any]:
    source = Input(folder / side)
    source.files = sorted((folder / side).glob("*.parquet"))
    rows = records(count, seed=100 * epoch + len(side), first=1000 * epoch)
    source.add(rows)
    return rows


@pytest.mark.long  # test_shared_jobs.py has them, too
def test_rules_change_over_restarts_and_rescales(spark: Any, tmp_path: Path) -> None:
    """Each run reads one file of each side, so it is one epoch, in which the rules come first."""
    name, rules, counts, expected = "rules", {}, {}, []
    for epoch, parallelism in enumerate((1, 3, 2)):
        for rule in sorted(add(tmp_path, "rules", epoch, 12)):
            rules.pop(rule.sub, None)
            if rule.v >= 0:
                rules[rule.sub] = rule.n
        for record in add(tmp_path, "data", epoch, 40):
            counts[record.k] = counts.get(record.k, 0) + 1
            expected.append((record.n, record.k, rules.get(record.sub), counts[record.k]))
        client = run_all(match_job(spark, tmp_path, name), parallelism=parallelism)
        assert len(client.epochs) == 1
    assert by_n(MemorySink(name).rows()) == expected
    rows = read_state(str(tmp_path / "root"), name, "match", "rules").to_pylist()
    assert [(row["user_key"], row["value"]) for row in rows] == list(rules.items())
    assert {row["key_group"] for row in rows} == {0}
    [*_, last] = newest(tmp_path / "root", name).operators["match"].acks
    assert last.changes is None or all(section.name != "rules" for section in last.changes.sections)


def test_rules_in_a_checkpoint_and_restored_from_it(spark: Any, tmp_path: Path) -> None:
    name, root = "published-rules", tmp_path / "root"
    wanted: dict[str, int] = {}
    for rule in sorted(add(tmp_path, "rules", 0, 12)):
        wanted.pop(rule.sub, None)
        if rule.v >= 0:
            wanted[rule.sub] = rule.n
    for epoch in range(3):
        add(tmp_path, "data", epoch, 2)
    run_all(match_job(spark, tmp_path, name, checkpoint_interval_ms=10))
    assert (root / name / "_operator" / "match" / "rules").is_dir()
    run_all(match_job(spark, tmp_path, name), restore="checkpoint:1", parallelism=4)
    rows = read_state(str(root), name, "match", "rules").to_pylist()
    assert [(row["user_key"], row["value"]) for row in rows] == list(wanted.items())


@pytest.mark.long
def test_rules_that_were_written_out_go_on_elsewhere_in_other_key_groups(spark: Any, tmp_path: Path) -> None:
    name, rules, counts, expected = "moved-rules", {}, {}, []
    root, backup = tmp_path / "root", tmp_path / "backup"
    for epoch in range(3):
        for rule in sorted(add(tmp_path, "rules", epoch, 12)):
            rules.pop(rule.sub, None)
            if rule.v >= 0:
                rules[rule.sub] = rule.n
        for record in add(tmp_path, "data", epoch, 40):
            counts[record.k] = counts.get(record.k, 0) + 1
            expected.append((record.n, record.k, rules.get(record.sub), counts[record.k]))
        if epoch == 0:
            run_all(match_job(spark, tmp_path, name, max_parallelism=13), parallelism=3)
            taken = trigger_savepoint(str(root), name, kind="canonical", directory=str(backup))
            assert {table.schema.name: table.schema.kind for table in taken.tables}["rules"] == "broadcast"
            root.rename(tmp_path / "gone")
            place = (backup / taken.savepoint_id).rename(tmp_path / "moved")
            assert validate_savepoint(str(root), name, str(place)).ok
        elif epoch == 1:
            run_all(match_job(spark, tmp_path, name), restore=str(place), max_parallelism=128, parallelism=4)
        else:
            run_all(match_job(spark, tmp_path, name), restore="latest", max_parallelism=2, parallelism=2)
    assert [row for row in by_n(MemorySink(name).rows()) if row[0] >= 1000] == expected[40:]
    rows = read_state(str(root), name, "match", "rules").to_pylist()
    assert [(row["user_key"], row["value"]) for row in rows] == list(rules.items())


def test_subtasks_that_differ_stop_the_job(spark: Any, tmp_path: Path) -> None:
    add(tmp_path, "rules", 0, 5)
    add(tmp_path, "data", 0, 5)
    with pytest.raises(BroadcastDivergenceError, match=r"'rules'.*subtask 0 against subtask 1"):
        run_all(match_job(spark, tmp_path, "diverging", Diverging()))
    run_all(match_job(spark, tmp_path, "diverging"))
    assert len(MemorySink("diverging").rows()) == 5


def test_the_data_side_may_not_write(spark: Any, tmp_path: Path) -> None:
    add(tmp_path, "rules", 0, 5)
    add(tmp_path, "data", 0, 5)
    with pytest.raises(UserFunctionError, match="ReadOnlyStateError"):
        run_all(match_job(spark, tmp_path, "writing", Writing()))


def test_what_cannot_be_broadcast_is_refused(spark: Any, tmp_path: Path) -> None:
    add(tmp_path, "rules", 0, 1)
    job = StreamJob("refused", root=str(tmp_path / "root"))
    stream = job.from_stream(Input(tmp_path / "rules").stream(spark))
    with pytest.raises(JobDefinitionError, match="MapStateDescriptor"):
        stream.broadcast(ValueStateDescriptor("rules", Types.LONG()))  # type: ignore[call-overload]
    with pytest.raises(DuplicateStateError, match="rules"):
        stream.broadcast(RULES, RULES)
    other = job.from_stream(Input(tmp_path / "rules").stream(spark))
    with pytest.raises(JobDefinitionError, match="KeyedBroadcastProcessFunction"):
        other.key_by("k").connect(stream.broadcast(RULES)).process(Highest(), MATCHED)
