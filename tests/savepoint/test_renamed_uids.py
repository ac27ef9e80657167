"""A restore that gives operators other uids."""

import shutil
from pathlib import Path

import pytest
from rekey_jobs import SCHEMAS, assert_state, files_below, job_of, start_rewritten, under

from state_engine.api import ListStateDescriptor, MapStateDescriptor, Types, ValueStateDescriptor
from state_engine.api.timers import TimeDomain
from state_engine.backends.schemas import (
    broadcast_schema,
    operator_schema,
    raw_keyed_schema,
    raw_operator_schema,
    renamed,
    state_schema,
    timer_schema,
)
from state_engine.epoch.compatibility import check_generated_uids
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.errors import GeneratedUidError, RestoreError, UnknownOperatorError
from state_engine.inspect import open_job
from state_engine.log.records import Manifest, OperatorEpoch, StateSchema
from state_engine.savepoint import trigger_savepoint, validate_savepoint
from state_engine.serialization.column import Column


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def test_a_renamed_state_is_the_one_that_the_new_operator_declares() -> None:
    key = (Column(name="k", type="string"),)

    def all_of(uid: str) -> list[StateSchema]:
        return [
            state_schema(uid, key, ValueStateDescriptor("value", Types.LONG())),
            state_schema(uid, key, ListStateDescriptor("list", Types.LONG())),
            state_schema(uid, key, MapStateDescriptor("map", Types.STRING(), Types.LONG())),
            timer_schema(uid, key, TimeDomain.EVENT_TIME),
            operator_schema(uid, ListStateDescriptor("offsets", Types.LONG())),
            broadcast_schema(uid, MapStateDescriptor("rules", Types.STRING(), Types.LONG())),
            raw_keyed_schema(uid),
            raw_operator_schema(uid),
        ]

    assert [renamed(schema, "new") for schema in all_of("old")] == all_of("new")


@pytest.mark.parametrize("groups", [13, 128])
@pytest.mark.parametrize("source", ["canonical", "native", "checkpoint:2"])
def test_state_is_found_under_the_new_uid(root: str, source: str, groups: int) -> None:
    job = job_of(root)
    name, epoch = source, 2
    if source in ("canonical", "native"):
        name, epoch = trigger_savepoint(root, "flights", kind=source).savepoint_id, 4  # type: ignore[call-overload]
    uids = {"aircraft": "plane"}
    manifest = start_rewritten(root, "flights", name, uids=uids, max_parallelism=groups).stored.manifest
    assert set(manifest.operators) == {"plane", "carrier"}
    assert set(manifest.keys) == {"plane", "carrier"}
    assert_state(root, "flights", job.models[1, epoch], groups, uids)
    again = trigger_savepoint(root, "flights", kind="canonical")
    assert validate_savepoint(root, "flights", again.savepoint_id).ok
    start_rewritten(root, "flights", None, schemas=under(uids), groups=groups)
    assert_state(root, "flights", job.models[1, epoch], groups, uids)


def test_two_operators_change_their_names(root: str) -> None:
    """Their keys differ, so a mix-up would be noticed."""
    job = job_of(root)
    uids = {"aircraft": "carrier", "carrier": "aircraft"}
    start_rewritten(root, "flights", "latest", uids=uids)
    assert_state(root, "flights", job.models[1, 4], 13, uids)


def test_a_job_elsewhere_begins_with_renamed_operators(root: str, tmp_path: Path) -> None:
    expected = job_of(root).models[1, 4]
    savepoint = trigger_savepoint(root, "flights", kind="canonical")
    folder = shutil.move(Path(root, "flights", "_savepoints", savepoint.savepoint_id), tmp_path / "moved")
    new, uids = str(tmp_path / "new"), {"carrier": "airline"}
    start_rewritten(new, "copy", str(folder), uids=uids)
    assert_state(new, "copy", expected, 13, uids)


@pytest.mark.parametrize(
    ("uids", "kind", "says"),
    [
        ({"aircaft": "plane"}, UnknownOperatorError, "'aircaft', which epoch 4.*Name one of its operators: aircraft"),
        ({"aircraft": "plan"}, UnknownOperatorError, "'aircraft' to 'plan', which the job does not have.*plane"),
        ({"aircraft": "carrier"}, RestoreError, "both 'aircraft' and 'carrier' would be operator 'carrier'"),
    ],
)
def test_a_mapping_that_fits_nothing_is_refused(root: str, uids: dict[str, str], kind: type, says: str) -> None:
    job_of(root)
    before = files_below(root)
    schemas = SCHEMAS if uids == {"aircraft": "carrier"} else under({"aircraft": "plane"})
    with pytest.raises(kind, match=says):
        start_rewritten(root, "flights", "latest", uids=uids, schemas=schemas)
    assert files_below(root) == before


def test_without_the_mapping_the_old_uid_is_missed(root: str) -> None:
    job_of(root)
    with pytest.raises(UnknownOperatorError, match=r"'aircraft' \(.*new in the job: plane.*uid_mapping"):
        start_rewritten(root, "flights", "latest", schemas=under({"aircraft": "plane"}))


def test_what_is_dropped_is_not_copied(root: str) -> None:
    job_of(root)
    only = tuple(schema for schema in under({"aircraft": "plane"}) if schema.uid == "plane")
    start_rewritten(root, "flights", "latest", uids={"aircraft": "plane"}, schemas=only, allow_non_restored_state=True)
    head = open_job(root, "flights").newest()
    assert head is not None
    assert set(head.manifest.operators) == {"plane"}
    assert not list(Path(root, "flights", "_restored").rglob("carrier"))


# Uids that were derived from positions -------------------------------------------------------------------------------


def shapes(*uids: str, generated: bool = True) -> StartRequest:
    operators = tuple(
        OperatorShape(uid=uid, parallelism=1, max_parallelism=13, keys=(), generated_uid=generated) for uid in uids
    )
    return StartRequest(job="j", root="r", operators=operators)


def sealed(*uids: str, states: tuple[str, ...]) -> Manifest:
    return Manifest(
        job="j",
        generation=1,
        epoch=4,
        kind="epoch",
        incarnation="i",
        incarnation_number=1,
        predecessor="",
        processing_time=0,
        lineage=(),
        operators={uid: OperatorEpoch(parallelism=1, max_parallelism=13) for uid in uids},
        schemas=tuple(state_schema(uid, (), ValueStateDescriptor("count", Types.LONG())) for uid in states),
    )


def test_a_uid_made_of_the_place_is_refused_once_the_places_have_changed() -> None:
    before = sealed("keyed-process-1", states=("keyed-process-1",))
    check_generated_uids(shapes("keyed-process-1"), before)
    with pytest.raises(GeneratedUidError, match=r"'keyed-process-1'.*new: keyed-process-2.*count.*uid='keyed-pro"):
        check_generated_uids(shapes("keyed-process-1", "keyed-process-2"), before)
    with pytest.raises(GeneratedUidError, match="gone: map-2"):
        check_generated_uids(shapes("keyed-process-1"), sealed("keyed-process-1", "map-2", states=("keyed-process-1",)))
    check_generated_uids(shapes("keyed-process-1", "other", generated=False), before)
    check_generated_uids(shapes("keyed-process-1", "other"), sealed("keyed-process-1", states=()))
