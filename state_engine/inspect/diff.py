"""Compares the states of a job at two epochs, entry by entry.

Both sides are folded a run of key groups at a time, so memory is bounded by the largest key group, not by the state.
If a restore has re-keyed a state in between, into another number of key groups, that state is folded as a whole.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from state_engine.floats import one_float
from state_engine.inspect.read import At, History, known_states, last_group, segments_of
from state_engine.inspect.reading import history_kept
from state_engine.inspect.scan import ROWS_AT_ONCE, group_rows, ranges_of
from state_engine.log.records import StateSchema
from state_engine.storage.state_reader import load_groups

EXAMPLES = 5

Entries = dict[Any, tuple[dict[str, Any], Any]]
"""An entry's identity in a form that can be hashed, to the columns that name it and its value."""


class EntryDiff(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that differs: the columns that name it, and its values.

    A list is one entry; its value is all its elements. If `kind` is `added` or `removed`, the other value is None.
    """

    kind: str
    entry: dict[str, Any]
    before: Any = None
    after: Any = None


class StateDiff(msgspec.Struct, frozen=True, kw_only=True):
    """How the entries of one state differ. Types are Spark DDL of the value, None where the state does not exist."""

    uid: str
    state: str
    type_before: str | None
    type_after: str | None
    added: int
    removed: int
    changed: int
    unchanged: int
    examples: tuple[EntryDiff, ...]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed or self.changed)


def diff_states(
    root: str,
    job: str,
    before: At,
    after: At,
    *,
    examples: int = EXAMPLES,
    rows_at_once: int = ROWS_AT_ONCE,
    on_progress: Callable[[str, float], None] = lambda state, share: None,
) -> Iterator[StateDiff]:
    """Compares all states of a job at two epochs, by key, namespace and user key; last accesses are not compared.

    Args:
        root: Of the storage.
        job: Name of the job; it may be running.
        before: As `at` of `read_state`.
        after: The same.
        examples: Number of entries of each kind to report.
        rows_at_once: About this number of rows of each side are in memory at once.
        on_progress: Called with `uid/state` and the share of it that is done, from 0 to 1.

    Yields:
        One record per state that either side has. The files that are read are kept until the last one.

    Raises:
        NothingToRestoreError: One of the two does not exist.
        CondemnedError: Retention is removing some of the files.
        CorruptionError: A file is gone or damaged.
    """
    with (
        history_kept(root, job, before, purpose="diff") as one,
        history_kept(root, job, after, purpose="diff") as other,
    ):
        sides = (one, other)
        left, right = ({(s.uid, s.name): s for s in known_states(side)} for side in sides)
        for uid, name in sorted(left.keys() | right.keys()):
            on_share = partial(on_progress, f"{uid}/{name}")
            schemas = (left.get((uid, name)), right.get((uid, name)))
            yield _diff_state(root, job, sides, schemas, examples, rows_at_once, on_share)


def _diff_state(
    root: str,
    job: str,
    sides: tuple[History, History],
    schemas: tuple[StateSchema | None, StateSchema | None],
    examples: int,
    rows_at_once: int,
    on_progress: Callable[[float], None],
) -> StateDiff:
    schema = schemas[0] or schemas[1]
    assert schema is not None
    last = [last_group(side, schema.uid) for side in sides]
    groups = 1 + max(last)
    rekeyed = None not in schemas and last[0] != last[1]  # a key is in other groups on the other side
    segments = [segments_of(root, job, side) for side in sides]
    weights = np.zeros(groups)
    for n in (0, 1):
        one = schemas[n]
        weights = np.maximum(weights, group_rows(segments[n], one, groups)) if one is not None else weights
    # A rescale moves elements of operator state between subtasks, so all elements are compared as one list.
    parts = list(ranges_of(weights, 1 << 62 if schema.kind == "operator" or rekeyed else rows_at_once))
    counts = dict.fromkeys(("added", "removed", "changed", "unchanged"), 0)
    reported: list[EntryDiff] = []
    for number, part in enumerate(parts):
        tables = [
            load_groups(segments[n], one, part.first, part.last) if (one := schemas[n]) is not None else None
            for n in (0, 1)
        ]
        for entry in _compare(_entries(schemas[0], tables[0]), _entries(schemas[1], tables[1])):
            counts[entry.kind] += 1
            if entry.kind != "unchanged" and counts[entry.kind] <= examples:
                reported.append(entry)
        on_progress((number + 1) / len(parts))
    types = [one.value if one is not None else None for one in schemas]
    order = ("added", "removed", "changed")
    return StateDiff(
        uid=schema.uid,
        state=schema.name,
        type_before=types[0],
        type_after=types[1],
        examples=tuple(sorted(reported, key=lambda one: order.index(one.kind))),
        **counts,
    )


def _compare(left: Entries, right: Entries) -> Iterator[EntryDiff]:
    for identity, (entry, before) in left.items():
        if identity not in right:
            yield EntryDiff(kind="removed", entry=entry, before=before)
            continue
        after = right[identity][1]
        # NaN is equal to itself here, also inside of a row: the stored values are compared.
        same = before == after or repr(before) == repr(after)
        yield EntryDiff(kind="unchanged" if same else "changed", entry=entry, before=before, after=after)
    for identity, (entry, after) in right.items():
        if identity not in left:
            yield EntryDiff(kind="added", entry=entry, after=after)


def _entries(schema: StateSchema | None, rows: pa.Table | None) -> Entries:
    """Returns rows by the columns that name them; the elements of a list in order."""
    entries: Entries = {}
    if schema is None or rows is None:
        return entries
    values = rows["value"].to_pylist()
    named = rows.select(_identity(schema)).to_pylist() if _identity(schema) else [{}] * len(values)
    for entry, value in zip(named, values, strict=True):
        identity = tuple(_frozen(one) for one in entry.values())
        if schema.shape == "list":
            entries.setdefault(identity, (entry, []))[1].append(value)
        else:
            entries[identity] = (entry, value)
    return entries


def _identity(schema: StateSchema) -> list[str]:
    """Returns the columns that name an entry; without a key the key group does (raw keyed state, broadcast state)."""
    if schema.kind == "operator":
        return []
    columns = [column.name for column in schema.key] or ["key_group"]
    return [*columns, "namespace", *(["user_key"] if schema.user_key is not None else [])]


def _frozen(value: Any) -> Any:
    """Returns a value in a form that can be hashed, equal for equal values: windows and rows are dictionaries."""
    if isinstance(value, dict):
        return tuple((name, _frozen(one)) for name, one in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list) else one_float(value)


__all__ = ["EXAMPLES", "EntryDiff", "StateDiff", "diff_states"]
