"""A whole job is restored, or begun from a savepoint, without its code; and what a dry run reports."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from canonical_jobs import NoSinks
from msgspec.structs import replace
from rekey_jobs import SCHEMAS, assert_state, files_below, job_of, start_rewritten, under

from state_engine.backends.schemas import raw_keyed_schema
from state_engine.epoch.request import OperatorShape
from state_engine.errors import (
    CorruptionError,
    DamagedFileError,
    MaxParallelismChangedError,
    MissingFileError,
    RestoreCancelledError,
    StateTypeChangedError,
    UnreadStateError,
)
from state_engine.inspect import open_job
from state_engine.log.records import Pin, StateSchema
from state_engine.savepoint import trigger_savepoint
from state_engine.savepoint.fitness import fitness
from state_engine.savepoint.restore import JobRestore
from state_engine.savepoint.restore_report import WholeRestore
from state_engine.serialization.column import Column
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def restore_of(root: str, job: str, source: str, **options: Any) -> JobRestore:
    return JobRestore(root, job, source, lambda *_: NoSinks(), clock=ManualClock(1_700_000_200_000), **options)


def code(schemas: Sequence[StateSchema], groups: int = 13, parallelism: int = 2, all_known: bool = False) -> Any:
    """Returns what a job with these states declares."""
    uids = dict.fromkeys(schema.uid for schema in schemas)
    shapes = tuple(
        OperatorShape(
            uid=uid,
            parallelism=parallelism,
            max_parallelism=groups,
            keys=next(schema.key for schema in schemas if schema.uid == uid),
            schemas=tuple(schema for schema in schemas if schema.uid == uid),
            all_known=all_known,
        )
        for uid in uids
    )
    return lambda _: shapes


@pytest.mark.parametrize("groups", [None, 128])
def test_the_next_start_goes_on_from_there(root: str, groups: int | None) -> None:
    job = job_of(root)
    report = restore_of(root, "flights", "epoch:1/2", max_parallelism=groups, parallelism=3).run()
    assert (report.sealed, report.onto, report.ok) == ((2, 3), (1, 4), True)
    assert_state(root, "flights", job.models[1, 2], groups or 13)
    manifest = start_rewritten(root, "flights", None, groups=groups, parallelism=2).stored.manifest
    assert (manifest.kind, manifest.generation, manifest.epoch) == ("claim", 2, 4)
    assert_state(root, "flights", job.models[1, 2], groups or 13)


def test_the_parallelism_stays_until_the_definition_changes(root: str) -> None:
    job_of(root, seed=5)
    before = open_job(root, "flights").newest()
    assert before is not None
    declared = before.manifest.operators["aircraft"].parallelism
    restore_of(root, "flights", "latest", parallelism=declared + 3).run()
    assert parallelism_of(start_rewritten(root, "flights", None, parallelism=declared)) == declared + 3
    assert parallelism_of(start_rewritten(root, "flights", None, parallelism=declared + 1)) == declared + 1


def parallelism_of(head: Any) -> int:
    [number] = {operator.parallelism for operator in head.operators}
    return int(number)


def test_a_job_that_never_ran_begins_with_it(root: str, tmp_path: Path) -> None:
    expected = job_of(root).models[1, 4]
    taken = trigger_savepoint(root, "flights", kind="canonical")
    there = shutil.move(Path(root, "flights", "_savepoints", taken.savepoint_id), tmp_path / "moved")
    new = str(tmp_path / "new")
    report = restore_of(new, "copy", str(there), uid_mapping={"aircraft": "plane"}, max_parallelism=128).run()
    assert report.onto is None
    assert_state(new, "copy", expected, 128, {"aircraft": "plane"})
    start_rewritten(new, "copy", None, groups=128, schemas=under({"aircraft": "plane"}))


def test_a_dry_run_lists_every_state_and_writes_nothing(root: str) -> None:
    job = job_of(root)
    before = files_below(root)
    plan = restore_of(
        root, "flights", "checkpoint:2", max_parallelism=128, uid_mapping={"aircraft": "plane"}, parallelism=5
    ).plan()
    assert files_below(root) == before
    assert (plan.ok, plan.copied, plan.code_checked, plan.sealed) == (True, True, False, None)
    rows = {(state.uid, state.state): state.rows for state in plan.states}
    for (uid, name), entries in job.models[1, 2].items():
        values = list(entries.values())
        counted = sum(len(v) for v in values) if name == "legs" else len(values)
        assert rows["plane" if uid == "aircraft" else uid, name] == counted
    assert {(s.fate, s.groups) for s in plan.states} == {("re-keyed", 128)}
    assert all(state.bytes > 0 for state in plan.states if state.rows)
    [plane] = [operator for operator in plan.operators if operator.uid == "plane"]
    assert (plane.before, plane.parallelism[1], plane.max_parallelism) == ("aircraft", 5, (13, 128))
    said = "\n".join(plan.lines())
    for what in ("Would restore epoch 1/2", "plane, which was aircraft", "13 → 128 key groups", "count (keyed)"):
        assert what in said
    assert "code was not checked" in said


def test_a_dry_run_lists_every_reason_to_refuse(root: str) -> None:
    job_of(root)
    before = files_below(root)
    wrong = tuple(s if s.name != "count" else changed(s) for s in SCHEMAS if s.uid == "aircraft")
    plan = restore_of(root, "flights", "latest", operators_of=code(wrong, groups=64)).plan()
    assert [refusal.error for refusal in plan.refusals] == [
        "UnknownOperatorError",
        "MaxParallelismChangedError",
        "StateTypeChangedError",
    ]
    assert "'carrier'" in plan.refusals[0].message
    assert "'count'" in plan.refusals[2].message
    assert all(refusal.action for refusal in plan.refusals)
    assert "Refused: StateTypeChangedError" in "\n".join(plan.lines())
    assert files_below(root) == before
    with pytest.raises(StateTypeChangedError, match="'count'"):
        restore_of(root, "flights", "latest", operators_of=code([changed(s) for s in SCHEMAS])).run()
    assert files_below(root) == before


def changed(schema: StateSchema) -> StateSchema:
    return replace(schema, schema_id="other", value="string") if schema.name == "count" else schema


def test_a_dry_run_names_what_is_left_and_what_is_new(root: str) -> None:
    job_of(root)
    new = StateSchema(
        schema_id="n",
        uid="new",
        kind="keyed",
        name="n",
        shape="value",
        key=(Column(name="k", type="int"),),
        value="int",
    )
    schemas = [*(s for s in SCHEMAS if s.uid == "aircraft"), new]
    plan = restore_of(
        root, "flights", "latest", operators_of=code(schemas, 128), max_parallelism=128, allow_non_restored_state=True
    ).plan()
    assert plan.ok, plan.refusals
    assert {o.uid: o.fate for o in plan.operators} == {"aircraft": "re-keyed", "carrier": "left", "new": "new"}
    assert {s.state: s.fate for s in plan.states if s.uid == "carrier"} == {"seen": "left"}


@pytest.mark.parametrize("source", ["latest", "canonical"])
@pytest.mark.parametrize("groups", [13, 128])
def test_what_the_code_does_not_read_is_no_state_that_is_restored(root: str, source: str, groups: int) -> None:
    job_of(root)
    if source == "canonical":
        source = trigger_savepoint(root, "flights", kind="canonical").savepoint_id
    fewer = under({"aircraft": "plane"})
    fewer = tuple(schema for schema in fewer if schema.name != "legs")
    options: dict[str, Any] = {
        "operators_of": code(fewer, groups, all_known=True),
        "uid_mapping": {"aircraft": "plane"},
        "max_parallelism": groups,
    }
    plan = restore_of(root, "flights", source, **options).plan()
    assert plan.ok, plan.refusals
    [unread] = plan.unread
    [legs] = [state for state in plan.states if state.state == "legs"]
    assert (legs.uid, legs.fate) == ("plane", "unread")
    assert {state.fate for state in plan.states if state is not legs} <= {"restored", "re-keyed"}
    assert (unread.uid, unread.state, unread.fields, unread.bytes) == ("plane", "legs", (), legs.bytes)
    assert unread.rows >= legs.rows > 0
    assert f"Not read: state 'legs' of operator 'plane' ({unread.rows} rows" in "\n".join(plan.lines())
    before = files_below(root)
    strict = restore_of(root, "flights", source, strict=True, **options)
    assert [refusal.error for refusal in strict.plan().refusals] == ["UnreadStateError"]
    with pytest.raises(UnreadStateError, match="'legs'"):
        strict.run()
    assert files_below(root) == before
    assert restore_of(root, "flights", source, **options).run().unread == plan.unread


def test_fields_that_the_code_does_not_read_are_reported_with_rows_and_bytes(root: str) -> None:
    job_of(root)
    [legs] = [schema for schema in SCHEMAS if schema.name == "legs"]
    assert legs.value == "struct<origin:string,minutes:int>"
    shorter = [replace(s, value="struct<origin:string>", schema_id="x") if s is legs else s for s in SCHEMAS]
    report_of_code = fitness(root, "flights", "latest", code(shorter, all_known=True))
    assert report_of_code is not None
    assert report_of_code.refusals == ()
    [unread] = report_of_code.unread
    assert (unread.uid, unread.state, unread.fields, unread.before) == ("aircraft", "legs", ("minutes",), False)
    assert unread.rows > 0
    assert unread.bytes > 0
    [refusal] = fitness(root, "flights", "latest", code(shorter, all_known=True), strict=True).refusals
    assert (refusal.error, "minutes of state 'legs'" in refusal.message) == ("UnreadStateError", True)
    assert fitness(root, "flights", "latest", code(SCHEMAS, all_known=True)).unread == ()


def test_a_dry_run_finds_the_file_that_is_damaged(root: str) -> None:
    job_of(root)
    taken = trigger_savepoint(root, "flights", kind="canonical")
    file = sorted(Path(root, "flights", "_savepoints", taken.savepoint_id).rglob("carrier/seen/*.parquet"))[0]
    file.chmod(0o644)
    good = file.read_bytes()
    file.write_bytes(good[:20] + bytes([good[20] ^ 1]) + good[21:])
    [refusal] = restore_of(root, "flights", taken.savepoint_id).plan().refusals
    assert refusal.error == "DamagedFileError"
    assert file.name in refusal.message
    with pytest.raises(DamagedFileError, match=file.name):
        restore_of(root, "flights", taken.savepoint_id).run()
    assert not Path(root, "flights", "_restored").exists() or not files_below(f"{root}/flights/_restored")


@pytest.mark.parametrize(("damage", "error"), [("gone", MissingFileError), ("bytes", DamagedFileError)])
def test_state_that_needs_no_copy_is_read_before_anything_is_written(
    root: str, damage: str, error: type[CorruptionError]
) -> None:
    job_of(root)
    taken = trigger_savepoint(root, "flights")
    assert isinstance(taken, Pin)
    file = Path(root, "flights", max(path for path, _ in taken.handles if path.endswith((".parquet", ".arrow"))))
    good = file.read_bytes()
    file.unlink()
    if damage == "bytes":
        file.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    before = files_below(root)
    restoring = restore_of(root, "flights", f"epoch:{taken.generation}/{taken.epoch}")
    with pytest.raises(error, match=file.name) as caught:
        restoring.run()
    assert caught.value.action
    assert files_below(root) == before
    file.unlink(missing_ok=True)
    file.write_bytes(good)
    shares: list[float] = []
    with pytest.raises(RestoreCancelledError):
        restore_of(root, "flights", taken.savepoint_id, cancelled=lambda: True).run()
    report = restore_of(root, "flights", taken.savepoint_id, progress=lambda _, share: shares.append(share)).run()
    assert report.sealed is not None
    assert (shares[0] > 0, shares == sorted(shares), shares[-1]) == (True, True, 1.0)


def test_who_must_not_wait_restores_unread_files(root: str) -> None:
    job_of(root)
    taken = trigger_savepoint(root, "flights")
    assert isinstance(taken, Pin)
    file = Path(root, "flights", max(path for path, _ in taken.handles if path.endswith((".parquet", ".arrow"))))
    good = file.read_bytes()
    file.unlink()
    file.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    assert restore_of(root, "flights", taken.savepoint_id, validate=False).run().sealed is not None


def test_a_dry_run_and_a_restore_can_be_given_up(root: str) -> None:
    job_of(root)
    before = files_below(root)
    for asked in (restore_of(root, "flights", "latest", max_parallelism=7, cancelled=lambda: True),):
        with pytest.raises(RestoreCancelledError):
            asked.plan()
        with pytest.raises(RestoreCancelledError):
            asked.run()
    assert files_below(root) == before


def test_raw_state_is_refused_at_once(root: str) -> None:
    job = JobBuilder(root, "raw", [raw_keyed_schema("op")])
    job.epoch()
    with pytest.raises(MaxParallelismChangedError, match="'op' has raw keyed state"):
        restore_of(root, "raw", "latest", max_parallelism=128)


def test_progress_is_reported(root: str) -> None:
    job_of(root)
    shares: list[float] = []
    report: WholeRestore = restore_of(root, "flights", "latest", progress=lambda _, share: shares.append(share)).plan()
    assert report.ok
    assert shares[-1] == pytest.approx(1.0)
