"""May this job go on from that manifest? Asked in S1, before anything is written.

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
    """What one subtask did in an epoch: states that it asked for so far, and ids of those that it wrote."""

    asked: tuple[StateSchema, ...]
    schema_ids: frozenset[str]


def written_of(ack: Ack) -> Written:
    """Returns what an ack says of this."""
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
    """Every operator that has state must still be there, unless its state may stay behind.

    One that has never written any has none, whatever it declares.

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
        new = [known for known in uids if known not in target.operators]
        candidates = difflib.get_close_matches(uid, new, cutoff=0.0) or ["none"]
        raise UnknownOperatorError(
            f"Epoch {target.epoch} holds state of operator {uid!r} ({states}), which the job no longer has.",
            action=f"Give its uid back to the operator (new in the job: {', '.join(candidates)}), rename it by the "
            "restore's uid_mapping, or allow non-restored state to leave it in the log.",
        )


def check_returned(request: StartRequest, target: Manifest) -> None:
    """State across a gap is old: an operator that comes back resumes it only if the author says so.

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
                f"and the state that it had before ({states}) is still there.",
                action=f"Say resume_state=[{shape.uid!r}] (`--resume-state {shape.uid}`) to go on with that state, or "
                f"discard_state=[{shape.uid!r}] (`--discard-state {shape.uid}`) to begin without any.",
            )


def check_generated_uids(request: StartRequest, target: Manifest) -> None:
    """A uid that stands for an operator's place says nothing once the job has other operators.

    Flink's generated ids are hashes of the topology and miss their state then; ours could find another operator's.

    Raises:
        GeneratedUidError: It names the operator, and what is new or gone.
    """
    uids = {shape.uid for shape in request.operators}
    if uids == set(target.operators):
        return
    for shape in request.operators:
        states = sorted(schema.name for schema in target.schemas if schema.uid == shape.uid)
        if not (shape.generated_uid and states):
            continue
        changes = {"new": uids.difference(target.operators), "gone": set(target.operators).difference(uids)}
        said = "; ".join(f"{what}: {', '.join(sorted(found))}" for what, found in changes.items() if found)
        raise GeneratedUidError(
            f"Operator {shape.uid!r} was given no uid and is called so after its place, but the job's operators "
            f"are not those of epoch {target.epoch} ({said}): the state there ({', '.join(states)}) may be another's.",
            action=f"If it is the same operator, say so in the code: uid={shape.uid!r}. Give the others uids as well.",
        )


def check_max_parallelism(request: StartRequest, target: Manifest) -> None:
    """Key groups are counted once and for all.

    Raises:
        MaxParallelismChangedError: An operator has another number of key groups.
    """
    for shape in request.operators:
        known = target.operators.get(shape.uid)
        if known is not None and known.max_parallelism != shape.max_parallelism:
            raise MaxParallelismChangedError(
                f"Operator {shape.uid!r} has max parallelism {shape.max_parallelism}; its state was written with "
                f"{known.max_parallelism}.",
                action=f"Set max_parallelism={known.max_parallelism}; or have the state re-keyed by a restore: "
                f"start(restore=..., max_parallelism={shape.max_parallelism}).",
            )


def check_parallelism(request: StartRequest) -> None:
    """A start that asks for more subtasks than an operator has key groups would get fewer.

    Raises:
        JobDefinitionError: It names the operator.
    """
    for shape in request.operators:
        if request.parallelism is not None and request.parallelism > shape.max_parallelism:
            raise JobDefinitionError(
                f"Parallelism {request.parallelism} is out of bounds: operator {shape.uid!r} of job {request.job!r} "
                f"has {shape.max_parallelism} key groups.",
                action=f"Use 1 to {shape.max_parallelism}; or have the state re-keyed by a restore with a larger "
                "max_parallelism.",
            )


def check_keys(request: StartRequest, target: Manifest) -> None:
    """A key of another type hashes to other key groups.

    Raises:
        KeyTypeChangedError: Columns, their order or types differ.
    """
    for shape in request.operators:
        known = target.keys.get(shape.uid)
        if known is not None and known != shape.keys:
            raise KeyTypeChangedError(
                f"Operator {shape.uid!r} is keyed by ({_columns(shape.keys)}); its state was written by "
                f"({_columns(known)}).",
                action="Restore the key columns, or give the operator a new uid; it begins without state.",
            )


def check_windows(request: StartRequest, target: Manifest) -> None:
    """Windows that are open are found, fire and end by what the release says that goes on with them.

    Another size, slide, offset, gap, lateness, or number of a trigger or an evictor is carried over (docs/windows.md).

    Raises:
        WindowsChangedError: An operator has other windows, for which what is open would stay for ever, or be lost.
    """
    for shape in request.operators:
        known = target.operators.get(shape.uid)
        before = known.windows if known is not None and not known.unwritten else None
        if before is None or before == shape.windows or not (states := _states(shape.uid, target)):
            continue
        raise WindowsChangedError(
            f"The windows of operator {shape.uid!r} changed: {'; '.join(_differences(before, shape.windows))}. What is "
            f"open of them in epoch {target.epoch} ({states}) would be lost.",
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
    """Source positions mean something only for the sources that they were taken from.

    Before the first position a job may change its sources: nothing was read.

    Raises:
        SourcesChangedError: It says which source differs and in what, and whether the start may allow it.
    """
    if target.sources:
        check_changes(target.fingerprints, request.fingerprints, target.epoch, request.allow_changed_sources)


def check_imported(request: StartRequest, head: StoredManifest | None) -> None:
    """Sinks go back along the job's own log, which has nothing of a savepoint that was imported.

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
        "cannot be taken back there.",
        action="Restore with keep_output=True and take the output back by hand, or start under a new job name.",
    )


def merge_schemas(
    known: Iterable[StateSchema], found: Iterable[StateSchema], epoch: int, *, claim: bool = False
) -> tuple[StateSchema, ...]:
    """Adds the schemas that are new; (uid, kind, name) identifies a state. Sorted by that identity.

    A state that is known gets the time to live that it was found with, and the type.

    Args:
        known: What the log has.
        found: What the job declares.
        epoch: The last one with rows that were written as `known` says.
        claim: Nothing is written yet: types stay, and change with the first epoch whose tasks report the new ones.

    Raises:
        StateTypeChangedError: A state is known with a schema that cannot become the new one.
        TtlTimeChangedError: The time to live of a state goes by another time than its rows.
    """
    merged = {(schema.uid, schema.kind, schema.name): schema for schema in known}
    for schema in found:
        identity = (schema.uid, schema.kind, schema.name)
        before = merged.get(identity, replace(schema, declared=None) if schema.declared is not None else schema)
        now = evolve(before, schema, epoch)
        merged[identity] = carry_ttl(before if claim else now, schema, epoch)
    return tuple(merged[identity] for identity in sorted(merged))


def check_migrated(known: Iterable[StateSchema], subtasks: Sequence[Written]) -> None:
    """A state that a function converts must be written anew by all subtasks of its operator in one epoch.

    Args:
        known: What the log has.
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
                f"{len(subtasks)} subtasks wrote what they have of it.",
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
