"""Checks whether a job may go on from a manifest (in S1, before anything is written).

Pure functions. Each refusal is a named error that says what differs and what to do; after it the store is byte for byte
what it was.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from state_engine.epoch.request import StartRequest
from state_engine.epoch.rewrite import is_back
from state_engine.epoch.source_changes import check_changes
from state_engine.epoch.unread import check_unread
from state_engine.errors import (
    GeneratedUidError,
    JobDefinitionError,
    KeyTypeChangedError,
    MaxParallelismChangedError,
    SinkRewindError,
    StateReturnsError,
    StateTypeChangedError,
    UnknownOperatorError,
    WindowsChangedError,
)
from state_engine.log.evolution import evolve, is_migrated
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Ack, Manifest, StateSchema
from state_engine.log.state_ttl import carry_ttl
from state_engine.log.window_records import WindowsShape
from state_engine.serialization.column import Column


class Written(NamedTuple):
    """What one subtask did in an epoch: the states that it has asked for so far, and ids of those that it wrote."""

    asked: tuple[StateSchema, ...]
    schema_ids: frozenset[str]


def written_of(ack: Ack) -> Written:
    """Returns what an ack reports about states that were asked for and written."""
    sections = ack.changes.sections if ack.changes is not None else ()
    return Written(ack.schemas, frozenset(section.schema_id for section in sections))


def check(request: StartRequest, target: Manifest) -> None:
    """Raises the `RestoreError` that says why the job cannot go on from this manifest, if there is a reason."""
    check_operators(request, target)
    check_returned(request, target)
    check_generated_uids(request, target)
    check_max_parallelism(request, target)
    check_keys(request, target)
    check_windows(request, target)
    merge_schemas(target.schemas, (schema for shape in request.operators for schema in shape.schemas), target.epoch)
    check_unread(request, target)
    check_sources(request, target)


def check_operators(request: StartRequest, target: Manifest) -> None:
    """Refuses a job that lacks an operator with state, unless the start may leave that state in the log.

    An operator that has never written any state has none, whatever it declares.

    Raises:
        UnknownOperatorError: It names the states, and the uid that may be meant.
    """
    if request.allow_non_restored_state:
        return
    uids = [shape.uid for shape in request.operators]
    for uid in sorted({schema.uid for schema in target.schemas} - set(uids)):
        if uid in target.operators and target.operators[uid].unwritten:
            continue
        states = _states(uid, target)
        new = [candidate for candidate in uids if candidate not in target.operators]
        candidates = difflib.get_close_matches(uid, new, cutoff=0.0) or ["none"]
        raise UnknownOperatorError(
            f"Epoch {target.epoch} holds state of operator {uid!r} ({states}), which the job no longer has.",
            action=f"Give its uid back to the operator (new in the job: {', '.join(candidates)}), rename it by the "
            "restore's uid_mapping, or allow non-restored state to leave it in the log.",
        )


def check_returned(request: StartRequest, target: Manifest) -> None:
    """Refuses an operator that comes back after a gap, unless the author says that it resumes its old state.

    Raises:
        StateReturnsError: It names the operator, its states, and the epochs that ran without it.
    """
    for shape in request.operators:
        if not is_back(target, shape.uid) or shape.uid in request.resume_state:
            continue
        if states := _states(shape.uid, target):
            left_at = target.operators[shape.uid].left_at
            raise StateReturnsError(
                f"Operator {shape.uid!r} is back. The job ran without it from epoch {left_at} to {target.epoch}, "
                f"and the state that it had before ({states}) still exists.",
                action=f"Say resume_state=[{shape.uid!r}] (`--resume-state {shape.uid}`) to go on with that state, or "
                f"discard_state=[{shape.uid!r}] (`--discard-state {shape.uid}`) to begin without any.",
            )


def check_generated_uids(request: StartRequest, target: Manifest) -> None:
    """Refuses a uid generated from an operator's place if the job's set of operators has changed.

    Flink's generated ids are hashes of the topology, so they would miss their state in that case. Ours could find the
    state of another operator.

    Raises:
        GeneratedUidError: It names the operator, and which operators are new or gone.
    """
    uids = {shape.uid for shape in request.operators}
    if uids == set(target.operators):
        return
    for shape in request.operators:
        states = sorted(schema.name for schema in target.schemas if schema.uid == shape.uid)
        if not (shape.generated_uid and states):
            continue
        changes = {"new": uids.difference(target.operators), "gone": set(target.operators).difference(uids)}
        difference = "; ".join(f"{what}: {', '.join(sorted(names))}" for what, names in changes.items() if names)
        raise GeneratedUidError(
            f"Operator {shape.uid!r} was given no uid and is named after its place, but the job's operators are not "
            f"those of epoch {target.epoch} ({difference}): the state there ({', '.join(states)}) may be that of "
            "another operator.",
            action=f"If it is the same operator, say so in the code: uid={shape.uid!r}. Give the others uids as well.",
        )


def check_max_parallelism(request: StartRequest, target: Manifest) -> None:
    """Refuses another number of key groups: it is fixed with the first start.

    Raises:
        MaxParallelismChangedError: An operator has another number of key groups.
    """
    for shape in request.operators:
        epoch_operator = target.operators.get(shape.uid)
        if epoch_operator is not None and epoch_operator.max_parallelism != shape.max_parallelism:
            raise MaxParallelismChangedError(
                f"Operator {shape.uid!r} has max parallelism {shape.max_parallelism}; its state was written with "
                f"{epoch_operator.max_parallelism}.",
                action=f"Set max_parallelism={epoch_operator.max_parallelism}; or re-key the state with a restore: "
                f"start(restore=..., max_parallelism={shape.max_parallelism}).",
            )


def check_parallelism(request: StartRequest) -> None:
    """Refuses more subtasks than an operator has key groups: the start would get fewer than it asks for.

    Raises:
        JobDefinitionError: It names the operator.
    """
    for shape in request.operators:
        if request.parallelism is not None and request.parallelism > shape.max_parallelism:
            raise JobDefinitionError(
                f"Parallelism {request.parallelism} is out of bounds: operator {shape.uid!r} of job {request.job!r} "
                f"has {shape.max_parallelism} key groups.",
                action=f"Use 1 to {shape.max_parallelism}; or re-key the state with a restore that has a larger "
                "max_parallelism.",
            )


def check_keys(request: StartRequest, target: Manifest) -> None:
    """Refuses other key columns: a key of another type hashes to other key groups.

    Raises:
        KeyTypeChangedError: Columns, their order or types differ.
    """
    for shape in request.operators:
        written_keys = target.keys.get(shape.uid)
        if written_keys is not None and written_keys != shape.keys:
            raise KeyTypeChangedError(
                f"Operator {shape.uid!r} is keyed by ({_columns(shape.keys)}); its state was written by "
                f"({_columns(written_keys)}).",
                action="Restore the key columns, or give the operator a new uid; it begins without state.",
            )


def check_windows(request: StartRequest, target: Manifest) -> None:
    """Refuses changed windows if the new code would keep open ones for ever, or lose them.

    The release that goes on decides how open windows are looked up, when they fire, and when they end. Another size,
    slide, offset, gap, lateness, or number of a trigger or an evictor is carried over (docs/windows.md).

    Raises:
        WindowsChangedError: An operator has other windows, under which open ones would stay for ever, or be lost.
    """
    for shape in request.operators:
        epoch_operator = target.operators.get(shape.uid)
        before = epoch_operator.windows if epoch_operator is not None and not epoch_operator.unwritten else None
        if before is None or before == shape.windows or not (states := _states(shape.uid, target)):
            continue
        raise WindowsChangedError(
            f"The windows of operator {shape.uid!r} changed: {'; '.join(_differences(before, shape.windows))}. The "
            f"windows that are open in epoch {target.epoch} ({states}) would be lost.",
            action="Give the operator the windows that it had, or another uid: it then begins without state, and the "
            "start has to allow non-restored state to leave the old one in the log.",
        )


def _differences(before: WindowsShape, now: WindowsShape | None) -> Iterator[str]:
    if now is None:
        yield f"it had {before.kind}, and has none"
        return
    if before.kind != now.kind:
        yield f"they were {before.kind}, and are {now.kind}"
    if before.event_time != now.event_time:
        first, second = ("event", "processing") if before.event_time else ("processing", "event")
        yield f"they ended by {first} time, and do by {second} time"
    if before.trigger != now.trigger:
        yield f"their trigger was {before.trigger}, and is {now.trigger}"
    if before.evicting != now.evicting:
        yield f"they had {'an' if before.evicting else 'no'} evictor, and have {'one' if now.evicting else 'none'}"
    if before.declared != now.declared:
        first, second = ("columns", "functions") if before.declared else ("functions", "columns")
        yield f"they were aggregated by {first}, and are by {second}"


def check_sources(request: StartRequest, target: Manifest) -> None:
    """Refuses other sources than those that the source positions were taken from.

    Before the first position a job may change its sources: nothing was read.

    Raises:
        SourcesChangedError: It says which source differs and in what, and whether the start may allow it.
    """
    if target.sources:
        check_changes(target.fingerprints, request.fingerprints, target.epoch, request.allow_changed_sources)


def check_imported(request: StartRequest, head: StoredManifest | None) -> None:
    """Refuses to rewind sinks to an imported savepoint: sinks go back along the job's own log, which lacks it.

    Args:
        request: A restore.
        head: The newest sealed manifest of the job, if it ever ran.

    Raises:
        SinkRewindError: The job ran before, has sinks, and was not told to keep their output.
    """
    wanted = request.restore
    if wanted is None or not wanted.imported or head is None or request.keep_output:
        return
    if not (request.sinks or head.manifest.sinks):
        return
    raise SinkRewindError(
        f"Savepoint {wanted.savepoint_id!r} is of epoch {wanted.stored.manifest.epoch} of job "
        f"{wanted.stored.manifest.job!r}, which the log of job {request.job!r} does not have (any more): its sinks "
        "cannot be rewound to it.",
        action="Restore with keep_output=True and rewind the sinks by hand, or start under a new job name.",
    )


def merge_schemas(
    known: Iterable[StateSchema], found: Iterable[StateSchema], epoch: int, *, claim: bool = False
) -> tuple[StateSchema, ...]:
    """Adds the schemas that are new; (uid, kind, name) identifies a state. Sorted by that identity.

    A state that is known gets the time to live and the type of its schema in `found`.

    Args:
        known: The schemas in the log.
        found: The schemas that the job declares.
        epoch: The last epoch with rows that were written under the schemas in `known`.
        claim: Nothing is written yet: types stay. They change with the first epoch in which tasks report the new ones.

    Raises:
        StateTypeChangedError: The known schema of a state cannot become the new one.
        TtlTimeChangedError: The time to live of a state is measured in another time than that of its rows.
    """
    merged = {(schema.uid, schema.kind, schema.name): schema for schema in known}
    for schema in found:
        identity = (schema.uid, schema.kind, schema.name)
        before = merged.get(identity, replace(schema, declared=None) if schema.declared is not None else schema)
        now = evolve(before, schema, epoch)
        merged[identity] = carry_ttl(before if claim else now, schema, epoch)
    return tuple(merged[identity] for identity in sorted(merged))


def check_migrated(known: Iterable[StateSchema], subtasks: Sequence[Written]) -> None:
    """Checks that all subtasks of an operator rewrite, in one epoch, each state that a function converts.

    Args:
        known: The schemas in the log.
        subtasks: What each subtask of one operator asked for and wrote.

    Raises:
        StateTypeChangedError: Some subtasks did not, for instance because they never asked for the state.
    """
    before = {(schema.uid, schema.kind, schema.name): schema for schema in known}
    migrated = {}
    for schema in (schema for subtask in subtasks for schema in subtask.asked):
        old = before.get((schema.uid, schema.kind, schema.name))
        if old is not None and is_migrated(old, schema):
            migrated[schema.schema_id] = schema
    for schema in migrated.values():
        wrote = sum(schema.schema_id in subtask.schema_ids for subtask in subtasks)
        if wrote < len(subtasks):
            raise StateTypeChangedError(
                f"State {schema.name!r} of operator {schema.uid!r} is migrated by a function, and only {wrote} of "
                f"{len(subtasks)} subtasks wrote their part of it.",
                action="Ask for the state in open(), so that every subtask converts its part in the same epoch.",
            )


def _states(uid: str, target: Manifest) -> str:
    return ", ".join(sorted(schema.name for schema in target.schemas if schema.uid == uid))


def _columns(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


__all__ = [
    "Written",
    "check",
    "check_generated_uids",
    "check_imported",
    "check_keys",
    "check_max_parallelism",
    "check_migrated",
    "check_operators",
    "check_parallelism",
    "check_sources",
    "check_windows",
    "merge_schemas",
    "written_of",
]
