"""Chooses the part of a job's state that a restore replaces, or refuses, before anything is written. Pure."""

from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from state_engine.backends.schemas import RAW_KEYED
from state_engine.epoch.compatibility import check_keys, check_max_parallelism
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.errors import RestoreError, UnknownOperatorError
from state_engine.key_groups import KeyGroupRange, key_group_of
from state_engine.log.evolution import fitted
from state_engine.log.records import Manifest, StateSchema
from state_engine.serialization.types import ddl_to_arrow

Key = tuple[Any, ...]
Groups = int | tuple[int, int]


class Selection(NamedTuple):
    """What to replace. Either `ranges` or `keys` is empty; `uids` is None for all operators with keyed state."""

    ranges: tuple[KeyGroupRange, ...]
    keys: tuple[Key, ...]
    uids: tuple[str, ...] | None


class MovedState(NamedTuple):
    """One state of a chosen operator.

    Attributes:
        now: Its schema in the job, or the one in the source if the job does not have the state yet.
        known: Whether the job has the state.
        source: Its schema at the source; None if the source does not have the state, so no rows come from there.
        way: From the source's type to that of `now` (`log.evolution.fitted`); None without a source.
    """

    now: StateSchema
    known: bool
    source: StateSchema | None
    way: StateSchema | None


class Part(NamedTuple):
    """The part of one operator that is replaced: whole key groups, or some keys in them; in all its states together."""

    uid: str
    parallelism: int
    max_parallelism: int
    ranges: tuple[KeyGroupRange, ...]
    keys: tuple[Key, ...]
    states: tuple[MovedState, ...]
    untouched: tuple[str, ...]


def selection_of(ranges: Iterable[Groups] | None, keys: Iterable[Any] | None, uids: Iterable[str] | None) -> Selection:
    """Returns the selection for the arguments of a caller.

    Args:
        ranges: Key groups by number, or as (first, last), both inclusive; they may overlap.
        keys: Values of the key columns, in tuples; of a single column also bare.
        uids: Operators; None for all keyed ones.

    Raises:
        RestoreError: Neither ranges nor keys were given, or both; or a range or the list of operators is empty.
    """
    key_ranges = [_range(one) for one in ranges or ()]
    key_tuples = tuple(key if isinstance(key, tuple) else (key,) for key in keys or ())
    if bool(key_ranges) == bool(key_tuples):
        raise RestoreError(
            "Both key groups and keys were given." if key_ranges else "Neither key groups nor keys were given.",
            action="Give the ranges of key groups to replace, or the keys.",
        )
    chosen = tuple(sorted(set(uids))) if uids is not None else None
    if chosen == ():
        raise RestoreError("An empty list of operators was given.", action="Name operators, or leave it out for all.")
    return Selection(joined(key_ranges), key_tuples, chosen)


def joined(ranges: Iterable[KeyGroupRange]) -> tuple[KeyGroupRange, ...]:
    """Returns the same key groups in the fewest possible ranges, ascending."""
    merged: list[KeyGroupRange] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1].last + 1:
            merged[-1] = KeyGroupRange(merged[-1].first, max(merged[-1].last, last))
        else:
            merged.append(KeyGroupRange(first, last))
    return tuple(merged)


def choose(selection: Selection, onto: Manifest, source: Manifest) -> tuple[Part, ...]:
    """Returns what is replaced, operator by operator.

    Args:
        selection: What to replace.
        onto: The newest manifest of the job.
        source: The manifest of the epoch from which state is taken.

    Raises:
        UnknownOperatorError: The job or the source does not have one of the operators.
        MaxParallelismChangedError: Key groups are counted differently at the source.
        KeyTypeChangedError: Keys have other columns or types at the source.
        StateTypeChangedError: A state's values cannot become values of the type that it has now.
        RestoreError: An operator has no key, a key group does not exist, or a key does not fit the key columns.
    """
    uids = selection.uids or tuple(uid for uid in sorted(onto.operators) if _moving(onto, uid))
    if not uids:
        raise RestoreError(
            f"Job {onto.job!r} has no keyed state at epoch {onto.epoch}.", action="Nothing can be replaced."
        )
    return tuple(_part(uid, selection, onto, source) for uid in uids)


def _part(uid: str, selection: Selection, onto: Manifest, source: Manifest) -> Part:
    _check_operator(uid, onto, source)
    operator, key = onto.operators[uid], onto.keys[uid]
    shape = OperatorShape(uid=uid, parallelism=operator.parallelism, max_parallelism=operator.max_parallelism, keys=key)
    request = StartRequest(job=onto.job, root="", operators=(shape,))
    check_max_parallelism(request, source)
    check_keys(request, source)
    moving = _states(uid, onto, source)
    if selection.keys and any(state.now.name == RAW_KEYED for state in moving):
        raise RestoreError(
            f"Operator {uid!r} has raw keyed state; its bytes belong to key groups and not to keys.",
            action="Choose key groups, or other operators.",
        )
    types = [column.type for column in key]
    keys = tuple(dict.fromkeys(_typed(uid, one, types) for one in selection.keys))
    groups = [key_group_of(one, types, operator.max_parallelism) for one in keys]
    ranges = selection.ranges or joined(KeyGroupRange(group, group) for group in groups)
    if ranges[-1].last >= operator.max_parallelism:
        raise RestoreError(
            f"Operator {uid!r} has no key group {ranges[-1].last}.",
            action=f"Its key groups are 0 to {operator.max_parallelism - 1}.",
        )
    untouched = tuple(s.name for s in onto.schemas if s.uid == uid and s.kind in ("operator", "broadcast"))
    return Part(uid, operator.parallelism, operator.max_parallelism, ranges, keys, moving, untouched)


def _check_operator(uid: str, onto: Manifest, source: Manifest) -> None:
    if uid not in onto.operators:
        raise UnknownOperatorError(
            f"Job {onto.job!r} has no operator {uid!r}.",
            action=f"Its operators with keyed state are {_named(u for u in onto.operators if _moving(onto, u))}.",
        )
    if not onto.keys.get(uid) or not (_moving(onto, uid) or _moving(source, uid)):
        raise RestoreError(
            f"Operator {uid!r} of job {onto.job!r} has no keyed state; operator and broadcast state have no "
            "key groups.",
            action=f"Operators with keyed state are {_named(u for u in onto.operators if _moving(onto, u))}.",
        )
    if uid not in source.operators:
        raise UnknownOperatorError(
            f"Epoch {source.epoch} of job {source.job!r} has no operator {uid!r}.",
            action=f"Name operators that it has: {_named(u for u in source.operators if _moving(source, u))}.",
        )


def _states(uid: str, onto: Manifest, source: Manifest) -> tuple[MovedState, ...]:
    job_states, source_states = _moving(onto, uid), _moving(source, uid)
    states = []
    for name in sorted(job_states.keys() | source_states.keys()):
        old = source_states.get(name)
        # The earlier types in the source's schema apply only to the source's own rows.
        now = job_states.get(name) or replace(source_states[name], former=(), unknown_until=None)
        states.append(MovedState(now, name in job_states, old, fitted(old, now) if old is not None else None))
    return tuple(states)


def _moving(manifest: Manifest, uid: str) -> dict[str, StateSchema]:
    """Returns the states of an operator that are stored by key group, by name: keyed ones, raw ones, and timers."""
    return {s.name: s for s in manifest.schemas if s.uid == uid and s.kind in ("keyed", "timer")}


def _typed(uid: str, key: Key, types: Sequence[str]) -> Key:
    """Returns a key as the Python values that its columns have."""
    try:
        if len(key) != len(types):
            raise ValueError(f"{len(key)} values for {len(types)} key columns")
        return tuple(_value(value, ddl_to_arrow(ddl)) for value, ddl in zip(key, types, strict=True))
    except (ValueError, TypeError, OverflowError) as error:  # Arrow's errors are among them
        raise RestoreError(
            f"{key!r} is no key of operator {uid!r}, which is keyed by ({', '.join(types)}): {error}.",
            action="Give the values of its key columns in their order, or name the operators that have such keys.",
        ) from error


def _value(value: Any, column: pa.DataType) -> Any:
    """Returns a value as its column has it. Text for a column of another type is parsed, such as a date from JSON."""
    given: Any = pa.array([value], pa.string() if isinstance(value, str) else column)
    converted = given.cast(column)[0].as_py()
    if isinstance(value, Number) and converted != value:
        raise ValueError(f"{value!r} is no {column}")  # Arrow would cut it to an integer
    return converted


def _range(groups: Groups) -> KeyGroupRange:
    first, last = (groups, groups) if isinstance(groups, int) else groups
    if not 0 <= first <= last:
        raise RestoreError(
            f"{first} to {last} are no key groups.", action="Give (first, last), both inclusive, from 0."
        )
    return KeyGroupRange(first, last)


def _named(uids: Iterable[str]) -> str:
    return ", ".join(sorted(uids)) or "none"


__all__ = ["Groups", "Key", "MovedState", "Part", "Selection", "choose", "joined", "selection_of"]
