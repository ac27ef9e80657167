"""What a restore may change about the state that it takes over: uids of operators, the number of key groups. Pure.

The change is recorded in the origin of the new generation, so that any start that finishes the restore rewrites the
manifest in the same way. The rows are changed where they are copied (`savepoint/rekey.py`).
"""

import difflib
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from state_engine.backends.schemas import RAW_KEYED, renamed
from state_engine.errors import MaxParallelismChangedError, RestoreError, UnknownOperatorError
from state_engine.key_groups import check_parallelism
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, OperatorEpoch, Rewrite, StateSchema


def plan_rewrite(
    target: Manifest,
    *,
    uid_mapping: Mapping[str, str],
    max_parallelism: int | None,
    uids: Collection[str],
    allow_non_restored_state: bool = False,
    discard_state: Collection[str] = (),
) -> Rewrite | None:
    """Returns what a restore has to change about a manifest; None if nothing.

    Args:
        target: The epoch that is restored.
        uid_mapping: From uids that operators had there to those that they have now.
        max_parallelism: Number of key groups from now on; None for the number so far.
        uids: The operators of the job today.
        allow_non_restored_state: State of operators that the job no longer has is left out.
        discard_state: Operators of the job today that begin without state, if they were gone: their old state is left
            out too.

    Raises:
        UnknownOperatorError: The mapping names an operator that one of the sides does not have, or `discard_state`
            names one that the job does not have.
        RestoreError: The mapping gives two operators one uid.
        JobDefinitionError: The number of key groups is not allowed.
        MaxParallelismChangedError: An operator has raw keyed state, which cannot be sorted into other key groups.
    """
    mapping = {old: new for old, new in uid_mapping.items() if old != new}
    _check_mapping(target, mapping, uids)
    discarded = _discarded(target, mapping, uids, discard_state)
    if max_parallelism is not None:
        check_parallelism(1, max_parallelism)
        if all(operator.max_parallelism == max_parallelism for operator in target.operators.values()):
            max_parallelism = None
    if not mapping and max_parallelism is None and not discarded:
        return None
    all_uids = {*target.operators, *(schema.uid for schema in target.schemas)}
    left_out = {old for old in all_uids if allow_non_restored_state and mapping.get(old, old) not in uids}
    rewrite = Rewrite(uids=mapping, max_parallelism=max_parallelism, left=tuple(sorted(left_out | discarded)))
    _check_raw(target, rewrite)
    return rewrite


def is_back(target: Manifest, uid: str) -> bool:
    """Whether the job had lost this operator, and its old state still exists: it is back if the job has it now."""
    operator = target.operators.get(uid)
    return operator is not None and operator.left_at is not None and not operator.unwritten


def rewritten(stored: StoredManifest, rewrite: Rewrite | None) -> StoredManifest:
    """Returns a manifest as a generation that begins after it sees it, under the hash with which it was sealed.

    What a subtask did in its epoch stays as it was: the sinks need it.
    """
    if rewrite is None:
        return stored
    manifest = stored.manifest
    name = {uid: rewrite.uids.get(uid, uid) for uid in _uids_of(manifest) if uid not in rewrite.left}
    changed = replace(
        manifest,
        operators={name[u]: _sized(op, rewrite) for u, op in manifest.operators.items() if u in name},
        schemas=tuple(
            sorted(
                (rewritten_schema(schema, rewrite) for schema in manifest.schemas if schema.uid in name),
                key=lambda schema: (schema.uid, schema.kind, schema.name),
            )
        ),
        keys={name[u]: key for u, key in manifest.keys.items() if u in name},
        watermarks={name[u]: time for u, time in manifest.watermarks.items() if u in name},
        event_times={name[u]: times for u, times in manifest.event_times.items() if u in name},
        timers={name[u]: times for u, times in manifest.timers.items() if u in name},
    )
    return StoredManifest(changed, stored.hash)


def rewritten_schema(schema: StateSchema, rewrite: Rewrite) -> StateSchema:
    """Returns the schema of a state after all its rows were written anew, in the state's current type."""
    uid = rewrite.uids.get(schema.uid, schema.uid)
    fresh = replace(schema, former=(), unknown_until=None)
    return fresh if uid == schema.uid else renamed(fresh, uid)


def _sized(operator: OperatorEpoch, rewrite: Rewrite) -> OperatorEpoch:
    groups = rewrite.max_parallelism
    if groups is None:
        return operator
    return replace(operator, max_parallelism=groups, parallelism=min(operator.parallelism, groups))


def _uids_of(manifest: Manifest) -> set[str]:
    """Returns all uids in a manifest; an operator that the job no longer has may be in only some of its maps."""
    maps = (manifest.operators, manifest.keys, manifest.watermarks, manifest.event_times, manifest.timers)
    return {uid for one in maps for uid in one} | {schema.uid for schema in manifest.schemas}


def _check_mapping(target: Manifest, mapping: Mapping[str, str], uids: Collection[str]) -> None:
    for old, new in mapping.items():
        if old not in target.operators:
            similar = difflib.get_close_matches(old, target.operators, cutoff=0.0) or ["none"]
            raise UnknownOperatorError(
                f"The mapping renames operator {old!r}, which epoch {target.epoch} of job {target.job!r} does not "
                "have.",
                action=f"Name one of its operators: {', '.join(similar)}.",
            )
        if new not in uids:
            similar = difflib.get_close_matches(new, list(uids), cutoff=0.0) or ["none"]
            raise UnknownOperatorError(
                f"The mapping renames operator {old!r} to {new!r}, which the job does not have.",
                action=f"Name one of its operators: {', '.join(similar)}.",
            )
    old_of: dict[str, str] = {}
    for old in sorted(target.operators):
        new = mapping.get(old, old)
        if new in old_of:
            raise RestoreError(
                f"After the mapping both {old_of[new]!r} and {old!r} would be operator {new!r}.",
                action=f"Give {old_of[new] if old_of[new] == new else old!r} another uid in the mapping as well.",
            )
        old_of[new] = old


def _discarded(target: Manifest, mapping: Mapping[str, str], uids: Collection[str], asked: Collection[str]) -> set[str]:
    """Returns the former uids of those operators that are back: a repeated start discards nothing again."""
    former = {new: old for old, new in mapping.items()}
    for uid in asked:
        if uid not in uids:
            similar = difflib.get_close_matches(uid, list(uids), cutoff=0.0) or ["none"]
            raise UnknownOperatorError(
                f"The state of operator {uid!r} is to be discarded, and the job has no such operator.",
                action=f"Name one of its operators: {', '.join(similar)}.",
            )
    return {old for old in (former.get(uid, uid) for uid in asked) if is_back(target, old)}


def _check_raw(target: Manifest, rewrite: Rewrite) -> None:
    if rewrite.max_parallelism is None:
        return
    for schema in target.schemas:
        if schema.name != RAW_KEYED or schema.uid in rewrite.left:
            continue
        groups = target.operators[schema.uid].max_parallelism if schema.uid in target.operators else None
        if groups == rewrite.max_parallelism:
            continue
        raise MaxParallelismChangedError(
            f"Operator {schema.uid!r} has raw keyed state, bytes that belong to its {groups} key groups as wholes: "
            f"only its function can sort them into {rewrite.max_parallelism}.",
            action=f"Keep max_parallelism={groups}; or give the operator a new uid and allow non-restored state, which "
            "leaves out all its state.",
        )


__all__ = ["is_back", "plan_rewrite", "rewritten", "rewritten_schema"]
