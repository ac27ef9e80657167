"""Plans how a checkpoint publishes each state: the key groups of each file, and whether to fold from scratch. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state_engine.log.paths import state_table_path
from state_engine.log.records import Base, Manifest, Section, StateFile, StateSchema
from state_engine.log.state_ttl import settled_time
from state_engine.storage.checkpoint_storage import DELTA, StorageTraits

FULL_FACTOR = 4
"""A state is folded from scratch when the rows of its files are more than this many times its live rows."""

FULL_MINIMUM_ROWS = 50_000
"""Below this many rows, reading a long log costs less than rewriting it."""

FULL_LAYERS = 32
"""A state is folded from scratch when its files are from more than this many checkpoints."""

ROWS_PER_FILE = 500_000
"""About the number of rows of the log that are folded at once; bounds memory. One key group is never split."""

SMALL_ROW = 16
"""Compressed bytes per row. If rows are on average no larger, `SMALL_ROWS` times `ROWS_PER_FILE` are folded at once."""

SMALL_ROWS = 4
"""A section has up to 65,536 rows, of any number of key groups. Without this factor a log of many epochs was cut so
finely that its sections were read five times, once for each range that they overlap."""

_SLACK = 1.05
"""A range may have this many times its target of rows: key groups are never quite even, and each range has a cost."""

_ROUNDING = 1e-9
"""Tolerance for rounding in sums of shares."""


class StatePlan(NamedTuple):
    """How one state is published.

    Attributes:
        schema: The state.
        table: Folder of its files, relative to the job's root; where the checkpoint storage has tables, its table.
        stem: Beginning of the names of the files that this publish writes; the same for every attempt.
        full: True if the new files replace all others.
        reason: Why it is full; empty otherwise.
        kept: Files of the base that stay.
        ranges: Key groups, both ends inclusive, to fold into one file each.
        max_parallelism: Number of key groups.
        processing_time: Of the published epoch, in ms; a full fold decides by it or by `watermark` what has expired.
        watermark: Of the operator at that epoch (`settled_time`); None if it had none.
    """

    schema: StateSchema
    table: str
    stem: str
    full: bool
    reason: str
    kept: tuple[StateFile, ...]
    ranges: tuple[tuple[int, int], ...]
    max_parallelism: int
    processing_time: int
    watermark: int | None


def states_of(manifests: Sequence[Manifest]) -> list[StateSchema]:
    """Returns the states in a chain of manifests, of every kind, each with its newest schema."""
    newest: dict[tuple[str, str], StateSchema] = {}
    for manifest in manifests:
        for schema in manifest.schemas:
            newest[schema.uid, schema.name] = schema
    return [newest[name] for name in sorted(newest)]


def plan_state(
    schema: StateSchema,
    base: Base | None,
    manifests: Sequence[Manifest],
    active: Sequence[str] | None,
    inherited: Base | None = None,
    *,
    asked_full: bool = False,
    traits: StorageTraits = DELTA,
) -> StatePlan:
    """Plans how one state is published.

    Args:
        schema: The state.
        base: The newest visible base on the lineage.
        manifests: All manifests after it, the published epoch last.
        active: Names of the files that are in the state's table now, or None when there is no table.
        inherited: Without a base: that of the job which this one was forked from. Its files stay in that job.
        asked_full: Whether the state is folded from scratch in any case.
        traits: Of the checkpoint storage that takes the files.
    """
    head = manifests[-1]
    table = state_table_path(schema)
    base_files = files_of(base, schema)
    layer = f"e{head.epoch:010d}-from-e{base.epoch + 1:010d}" if base is not None else ""
    incremental = f"part-g{head.generation:06d}-{layer}"
    foreign = _foreign(table, base_files, active, incremental) if traits.tables else ""
    reason = _why_full(schema, base, base_files, head, foreign, traits)
    reason = reason or ("it was asked for" if asked_full else "")
    folded = (*base_files, *files_of(inherited, schema)) if reason else ()
    sections = _sections(manifests, schema)
    blocks = [*((one.first, one.last, one.rows) for one in sections), *_file_blocks(folded)]
    size = sum(one.length for one in sections) + sum(file.length for file in folded)
    at_once = rows_at_once(sum(rows for _, _, rows in blocks), size)
    groups = _max_parallelism(schema, base_files, manifests)
    return StatePlan(
        schema=schema,
        table=table,
        stem=f"part-g{head.generation:06d}-e{head.epoch:010d}-full" if reason else incremental,
        full=bool(reason),
        reason=reason,
        kept=() if reason else base_files,
        ranges=cut_ranges(blocks, groups, at_once) if reason or blocks else (),
        max_parallelism=groups,
        processing_time=head.processing_time,
        watermark=settled_time(head, schema.uid),
    )


def cut_ranges(
    blocks: Iterable[tuple[int, int, int]], max_parallelism: int, rows_per_range: int
) -> tuple[tuple[int, int], ...]:
    """Cuts all key groups into ranges of at most about `rows_per_range` rows, which share the rows evenly.

    Even ranges keep threads busy to the end. A block across a border is read for both sides, so there are no more
    ranges than necessary.

    Args:
        blocks: (first, last, rows): `rows` rows are somewhere in key groups `first` to `last`, both inclusive.
        max_parallelism: Number of key groups.
        rows_per_range: Rows at which a range ends; a range has at least one key group.
    """
    rows = np.zeros(max_parallelism)
    for first, last, count in blocks:
        rows[first : last + 1] += count / (last - first + 1)
    most = rows_per_range * _SLACK
    before = np.concatenate(([0.0], np.cumsum(rows)))
    even = _even_shares(before, most)
    ranges: list[tuple[int, int]] = []
    start, inside = 0, 0.0
    for group, in_group in enumerate(rows.tolist()):
        reached = inside + in_group / 2 > even[start]  # the border before this group is the nearer one
        if inside and in_group and (reached or inside + in_group > most):  # no range is without rows
            ranges.append((start, group - 1))
            start, inside = group, 0.0
        inside += in_group
    return (*ranges, (start, max_parallelism - 1))


def _even_shares(before: NDArray[np.float64], most: float) -> list[float]:
    """Returns for each key group: the rows per range if the fewest possible ranges share it and all groups after it.

    Each key group has its own share: so a large one does not change the shares of those after it.

    Args:
        before: The number of rows before each key group, and last the total.
        most: Rows that a range may have; a range of one key group may have more.
    """
    groups, rows = len(before) - 1, float(before[-1])
    ends = np.searchsorted(before, (before[:-1] + most) * (1 + _ROUNDING), side="right") - 1
    ranges = [0] * (groups + 1)
    shares = [0.0] * groups
    for group in range(groups - 1, -1, -1):
        end = max(int(ends[group]), group + 1)
        ranges[group] = 1 + ranges[end]
        shares[group] = (rows - float(before[group])) / ranges[group]
    return shares


def rows_at_once(rows: int, size: int) -> int:
    """Returns about how many rows a range may have.

    Args:
        rows: The total number of rows.
        size: Their stored bytes.
    """
    return ROWS_PER_FILE * (SMALL_ROWS if size <= SMALL_ROW * rows else 1)


def part_stem(plan: StatePlan, first: int, last: int) -> str:
    """Returns the name of the part for a range: it determines the content, whichever process writes it."""
    return f"{plan.stem}-{first:05d}-{last:05d}"


def file_name(plan: StatePlan, first: int, last: int) -> str:
    """Returns the name of the Parquet file for a range."""
    return f"{part_stem(plan, first, last)}.parquet"


def live_rows(manifests: Sequence[Manifest], schema: StateSchema) -> tuple[int, int] | None:
    """Returns the numbers of live (rows, keys), as the subtasks reported last; None when none of them did."""
    for manifest in reversed(manifests):
        operator = manifest.operators.get(schema.uid)
        acks = operator.acks if operator is not None else ()
        statistics = [s for ack in acks for s in ack.statistics if s.name == schema.name]
        if statistics:
            return sum(s.rows for s in statistics), sum(s.keys for s in statistics)
    return None


def changed_rows(manifests: Sequence[Manifest], schema: StateSchema) -> int:
    """Returns the rows of a state in all change files of an interval."""
    return sum(section.rows for section in _sections(manifests, schema))


def _why_full(
    schema: StateSchema,
    base: Base | None,
    mine: Sequence[StateFile],
    head: Manifest,
    foreign: str,
    traits: StorageTraits,
) -> str:
    if base is None:
        return "there is no base"
    if base.generation != head.generation:
        return "it is the first checkpoint of its generation"
    if base.storage != traits.name:
        return f"the checkpoint storage was {base.storage!r}"
    if not traits.layers:
        return f"the checkpoint storage {traits.name!r} keeps whole states only"
    if foreign:
        return foreign
    if any(former.until >= base.epoch for former in schema.former):
        return "its type changed"
    reported = live_rows([head], schema)
    limit = max(FULL_MINIMUM_ROWS, FULL_FACTOR * (reported[0] if reported else 0))
    if sum(file.rows for file in mine) > limit:
        return f"its files hold more than {limit} rows"
    if len({layer_of(file.path) for file in mine}) > FULL_LAYERS:
        return f"more than {FULL_LAYERS} checkpoints lie on top of each other"
    return ""


def layer_of(path: str) -> str:
    """Returns the stem of a state file's path: equal for all files of one publish."""
    return path.rsplit("-", 2)[0]


def _foreign(table: str, mine: Sequence[StateFile], active: Sequence[str] | None, incremental: str) -> str:
    """Returns how the table differs from what a correct series of publishes leaves there; empty if it does not.

    Files of an unfinished attempt at this same publish are correct; those at another epoch, or of an OPTIMIZE, are not.
    """
    names = {file.path.removeprefix(f"{table}/") for file in mine}
    if active is None:
        return "its table is gone" if names else ""
    missing = names.difference(active)
    extra = [name for name in active if name not in names and layer_of(name) != incremental]
    return "its table holds other files than the base" if missing or extra else ""


def files_of(base: Base | None, schema: StateSchema) -> tuple[StateFile, ...]:
    """Returns the files of a state in a base, also those that were written with an older schema of it."""
    if base is None:
        return ()
    ids = {old.schema_id for old in base.schemas if (old.uid, old.name) == (schema.uid, schema.name)}
    return tuple(file for file in base.files if file.schema_id in ids | {schema.schema_id})


def _sections(manifests: Sequence[Manifest], schema: StateSchema) -> list[Section]:
    operators = [one.operators[schema.uid] for one in manifests if schema.uid in one.operators]
    files = [ack.changes for operator in operators for ack in operator.acks if ack.changes is not None]
    return [section for file in files for section in file.sections if section.name == schema.name]


def _file_blocks(files: Sequence[StateFile]) -> Iterable[tuple[int, int, int]]:
    for file in files:
        yield from file.row_groups or ((file.first, file.last, file.rows),)


def _max_parallelism(schema: StateSchema, files: Sequence[StateFile], manifests: Sequence[Manifest]) -> int:
    for manifest in reversed(manifests):
        if schema.uid in manifest.operators:
            return manifest.operators[schema.uid].max_parallelism
    return files[-1].max_parallelism if files else 1


__all__ = [
    "FULL_FACTOR",
    "FULL_LAYERS",
    "FULL_MINIMUM_ROWS",
    "ROWS_PER_FILE",
    "StatePlan",
    "changed_rows",
    "cut_ranges",
    "file_name",
    "files_of",
    "layer_of",
    "live_rows",
    "part_stem",
    "plan_state",
    "rows_at_once",
    "states_of",
]
