"""Reads the live rows of a state a run of key groups at a time, so that a state of any size can be scanned."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state_engine.errors import UnknownOperatorError
from state_engine.inspect.read import History, known_states, last_group, segments_of
from state_engine.key_groups import KeyGroupRange
from state_engine.log.records import Base, StateFile, StateSchema
from state_engine.storage.port import ObjectReader
from state_engine.storage.state_files import read_state_file
from state_engine.storage.state_reader import Segment, load_groups

ROWS_AT_ONCE = 200_000
"""About this many rows of the log are in memory at once, unless a single key group has more."""
LARGEST_READ = 1 << 20
FILES_REMEMBERED = 4_096
"""Number of files for which the counts of rows are remembered: enough for all layers of some hundred states."""

Runs = tuple[tuple[int, int, int], ...]
"""First key group, last key group, rows."""


def find_state(history: History, job: str, name: str) -> StateSchema:
    """Returns the state that a user names by `uid/state`, `uid.state`, or `state` if only one has this name.

    Raises:
        UnknownOperatorError: No state has this name, or several have; the error names those that exist.
    """
    states = known_states(history)
    exact = [schema for schema in states if name in (f"{schema.uid}/{schema.name}", f"{schema.uid}.{schema.name}")]
    matches = exact or [schema for schema in states if schema.name == name]
    if len(matches) == 1:
        return matches[0]
    several = f"several states that {name!r} may mean" if matches else f"no state {name!r}"
    names = ", ".join(f"{schema.uid}/{schema.name}" for schema in matches or states) or "none"
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


def row_groups_of(_storage: ObjectReader, file: StateFile) -> Runs:
    """Returns the rows per run of key groups of a file, as far as its base has them; reads nothing."""
    return file.row_groups or ((file.first, file.last, file.rows),)


class ReadKeyGroups:
    """Counts the rows of small files by reading them, once each: a file never changes.

    In a small file key groups share row groups, so a base does not have a count for each of them.
    """

    def __init__(self, largest: int = LARGEST_READ) -> None:
        self._largest = largest
        self._known: OrderedDict[tuple[str, str], Runs] = OrderedDict()

    def __call__(self, storage: ObjectReader, file: StateFile) -> Runs:
        """Returns (group, group, rows) of each key group; of a large file what the base has (`row_groups_of`)."""
        if file.length > self._largest:
            return row_groups_of(storage, file)
        place = (storage.url, file.path)
        if place not in self._known:
            rows = read_state_file(storage, file, file.first, file.last)
            groups = rows["key_group"].to_numpy() if rows is not None else np.zeros(0, np.int32)
            ids, counts = np.unique(groups, return_counts=True)
            self._known[place] = tuple((g, g, count) for g, count in zip(ids.tolist(), counts.tolist(), strict=True))
            if len(self._known) > FILES_REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(place)
        return self._known[place]


def group_rows(
    segments: Sequence[Segment],
    schema: StateSchema,
    groups: int,
    runs_of: Callable[[ObjectReader, StateFile], Runs] = row_groups_of,
) -> NDArray[np.float64]:
    """Returns how many rows of its log a state has in each key group.

    A number for several key groups together (of a row group, of a section of a change file) counts for each of them in
    equal parts. So single groups are exact only if they are large enough to have row groups of their own.

    Args:
        segments: The state's history.
        schema: The state.
        groups: Number of key groups.
        runs_of: Returns (first group, last group, rows) of a file.
    """
    counts = np.zeros(groups)
    for storage, base, manifests in segments:
        for file in files_of(base, schema):
            for first, last, rows in runs_of(storage, file):
                _spread(counts, first, last, rows)
        for manifest in manifests:
            operator = manifest.operators.get(schema.uid)
            handles = [ack.changes for ack in operator.acks if ack.changes is not None] if operator else []
            for section in (section for handle in handles for section in handle.sections):
                if section.name == schema.name:
                    _spread(counts, section.first, section.last, section.rows)
    return counts


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
    """Returns the files of a base that hold a state, also those with types that it had before."""
    if base is None:
        return []
    ids = {old.schema_id for old in base.schemas if (old.uid, old.name) == (schema.uid, schema.name)}
    return [file for file in base.files if file.schema_id in ids | {schema.schema_id}]


def _spread(found: NDArray[np.float64], first: int, last: int, rows: int) -> None:
    last = min(last, len(found) - 1)
    if first <= last:
        found[first : last + 1] += rows / (last - first + 1)


__all__ = [
    "ROWS_AT_ONCE",
    "ReadKeyGroups",
    "files_of",
    "find_state",
    "group_rows",
    "ranges_of",
    "row_groups_of",
    "scan_state",
]
