"""Live rows of a state a run of key groups at a time, so that a state of any size can be looked through."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state_engine.errors import UnknownOperatorError
from state_engine.inspect.read import History, known_states, last_group, segments_of
from state_engine.key_groups import KeyGroupRange
from state_engine.log.records import Base, StateFile, StateSchema
from state_engine.storage.state_reader import Segment, load_groups

ROWS_AT_ONCE = 200_000
"""About so many rows of the log are in memory at once, unless a single key group has more."""


def find_state(history: History, job: str, name: str) -> StateSchema:
    """Returns the state that a person means by `uid/state`, `uid.state`, or `state` where only one has this name.

    Raises:
        UnknownOperatorError: None is meant, or several are; the error names those that exist.
    """
    known = known_states(history)
    exact = [schema for schema in known if name in (f"{schema.uid}/{schema.name}", f"{schema.uid}.{schema.name}")]
    found = exact or [schema for schema in known if schema.name == name]
    if len(found) == 1:
        return found[0]
    several = f"several states that {name!r} may mean" if found else f"no state {name!r}"
    names = ", ".join(f"{schema.uid}/{schema.name}" for schema in found or known) or "none"
    raise UnknownOperatorError(
        f"Job {job!r} has {several} at epoch {history.head.manifest.epoch}; there are {names}.",
        action="Name one of these as <operator uid>/<state name>.",
    )


def scan_state(
    root: str,
    job: str,
    history: History,
    schema: StateSchema,
    *,
    within: KeyGroupRange | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> Iterator[pa.Table]:
    """Yields the live rows of a state as `read_state` does, in tables of neighbouring key groups, lowest first.

    A key group is never in two tables.

    Raises:
        CorruptionError: A file is gone or damaged.
    """
    segments = segments_of(root, job, history)
    highest = last_group(history, schema.uid)
    for part in ranges_of(group_rows(segments, schema, highest + 1), rows_at_once):
        first = max(part.first, within.first if within is not None else 0)
        last = min(part.last, within.last if within is not None else highest)
        if first <= last:
            rows = load_groups(segments, schema, first, last).drop_columns(["op"])
            if rows.num_rows:
                yield rows


def group_rows(segments: Sequence[Segment], schema: StateSchema, groups: int) -> NDArray[np.float64]:
    """Returns how many rows of its log a state has in each key group, without reading state.

    What is told of several key groups together (a row group, a section) counts for each of them in equal parts, so
    single groups are exact only where they are large enough to have row groups of their own.
    """
    found = np.zeros(groups)
    for _, base, manifests in segments:
        for file in files_of(base, schema):
            for first, last, rows in file.row_groups or ((file.first, file.last, file.rows),):
                _spread(found, first, last, rows)
        for manifest in manifests:
            operator = manifest.operators.get(schema.uid)
            handles = [ack.changes for ack in operator.acks if ack.changes is not None] if operator else []
            for section in (section for handle in handles for section in handle.sections):
                if section.name == schema.name:
                    _spread(found, section.first, section.last, section.rows)
    return found


def ranges_of(rows: NDArray[np.float64], at_once: int) -> Iterator[KeyGroupRange]:
    """Cuts all key groups into ranges of at most `at_once` rows, or of one key group."""
    first, total = 0, 0.0
    for group, count in enumerate(rows):
        if group > first and total + count > at_once:
            yield KeyGroupRange(first, group - 1)
            first, total = group, 0.0
        total += count
    if len(rows):
        yield KeyGroupRange(first, len(rows) - 1)


def files_of(base: Base | None, schema: StateSchema) -> list[StateFile]:
    """Returns the files of a base that hold a state, under whatever types it had."""
    if base is None:
        return []
    ids = {old.schema_id for old in base.schemas if (old.uid, old.name) == (schema.uid, schema.name)}
    return [file for file in base.files if file.schema_id in ids | {schema.schema_id}]


def _spread(found: NDArray[np.float64], first: int, last: int, rows: int) -> None:
    last = min(last, len(found) - 1)
    if first <= last:
        found[first : last + 1] += rows / (last - first + 1)


__all__ = ["ROWS_AT_ONCE", "files_of", "find_state", "group_rows", "ranges_of", "scan_state"]
