"""`KeyedStream.aggregate` that reads or gives a changelog: rows that also retract the rows that they replace.

In Flink's changelog each row has a `RowKind`. Here that is a column of text, so that any Spark sink can store it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.aggregates import Aggregate
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.api.pyflink_types import Types
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.accumulators import longs
from state_engine.runtime.declared.base import Declared, renaming, types_of
from state_engine.runtime.declared.comparison import Flags, row_numbers, same
from state_engine.runtime.declared.local import LocalAggregation
from state_engine.runtime.declared.named import NamedAggregates, described

OP = "op"
OPS = ("-U", "+U", "+I", "-D")
"""The kinds of a changelog row, in the spelling of Flink's `RowKind`; rows of one key or rank come in this order."""
_RECORDS = "__ls_records_of_key"


class ChangelogAggregation(Declared):
    """Keeps aggregates per key; for each key with results that an epoch changed, gives the old row and the new row.

    Args:
        key: The key columns.
        aggregates: The aggregates by the name of the result.
        columns: Columns of the records.
        ttl: How long the aggregates of a key are kept. Expired aggregates are not retracted.
        retract: Whether the records are a changelog, too. If so, their column `op` says which of them are retracted. A
            key that has no records any more gives a row with `-D`.

    Attributes:
        output: Columns of the rows: the key, the results, and the kind of the row.

    Raises:
        JobDefinitionError: An aggregate is not possible with these columns, has the name of another one, or cannot
            retract records.
    """

    verb = "aggregate"
    wants_all = True  # a retraction may come before the record that it retracts
    gives_changelog = True

    def __init__(
        self,
        key: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        columns: StructType,
        ttl: StateTtlConfig | None = None,
        *,
        retract: bool = False,
    ) -> None:
        super().__init__(ttl)
        if retract:
            _check_op(columns)
        taken = next((name for name in (*key, *aggregates) if str(name).lower() == OP), None)
        if taken is not None:
            raise JobDefinitionError(
                f"aggregate() has a key or a result {taken!r}: the rows of a changelog get a column of this name.",
                action=renaming(taken) if taken in key else "Rename it.",
            )
        self._key, self.reads_changelog = tuple(key), retract
        beside = dict.fromkeys(key, "a key column")
        counted = {**aggregates, _RECORDS: Aggregate.count()} if aggregates else aggregates
        self._aggregates = NamedAggregates(counted, columns, beside, retract=retract)
        one_by_one = {"collect", "min", "max"} if retract else {"collect"}
        expiring = sorted({one.kind for one in aggregates.values()} & one_by_one) if ttl is not None else []
        if expiring:
            raise JobDefinitionError(
                f"aggregate() got {' and '.join(expiring)}, a changelog and a time to live: values expire one by one, "
                "and no row would retract them.",
                action="Remove one of the three.",
            )
        self._of = described(aggregates)
        types = {name: self._aggregates.types[name] for name in aggregates}
        key_types = types_of(key, columns)
        self.output = StructType((*key, *types, OP), (*key_types, *types.values(), Types.STRING()))
        if not retract and self._aggregates.partials is not None:
            self.local = LocalAggregation(self._key, key_types, self._aggregates.partials)

    @property
    def argument(self) -> str:
        return f"{self._of}, {'retract' if self.reads_changelog else 'changelog'}=True"

    def open(self, runtime_context: RuntimeContext) -> None:
        self._aggregates.open(runtime_context, self)

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        had, before = _apart(self._aggregates.results(keys.distinct))
        latest = keys.latest_times
        if self.reads_changelog:
            signs = signs_of(batch.column(OP))
            counted = _counted(keys.codes, had, batch, signs)
            if len(counted) < len(keys):
                codes, keys = keys.codes[counted], keys.take(counted)
                batch, signs = batch.take(indices(counted)), signs[counted]
                remaining = codes[keys.first]
                had, before = had[remaining], before.take(indices(remaining))
                latest = None if latest is None else latest.take(indices(remaining))
            results = self._aggregates.fold_signed(keys, batch, signs)
        else:
            results = self._aggregates.fold(keys, batch)
        each = keys.distinct
        has, after = _apart(results)
        self._aggregates.forget(each.take(np.flatnonzero(~has)))
        change = Changes.between(had, has, before, after)
        codes = indices(change.codes)
        columns = [*(column.take(codes) for column in each.columns), *change.rows.flatten(), change.ops]
        return ctx.timed(
            pa.table(columns, names=list(self.output.names)), None if latest is None else latest.take(codes)
        )


class Changes(NamedTuple):
    """Changelog rows for the changed rows of some keys; the rows of a key are adjacent, in order of their ops.

    Attributes:
        codes: Number of each row's key.
        rows: The rows, as structs.
        ops: The kind of each row, as text.
    """

    codes: Numbers
    rows: Any
    ops: Any

    @classmethod
    def between(cls, had: Flags, has: Flags, before: Any, after: Any) -> "Changes":
        """Compares the old and the new row of each key.

        Args:
            had: Flags of the keys that had a row.
            has: Flags of the keys that have a row.
            before: The old rows.
            after: The new rows.
        """
        changed = had & has & ~same(before, after)
        flags = (changed, changed, has & ~had, had & ~has)  # in the order of `OPS`
        codes = np.concatenate([np.flatnonzero(one) for one in flags])
        ops = np.repeat(np.arange(len(OPS)), [np.count_nonzero(one) for one in flags])
        order = order_of(ops, codes)
        codes, ops = codes[order], ops[order]
        of_new = np.isin(ops, [OPS.index("+U"), OPS.index("+I")])
        rows = pa.concat_arrays([before, after]).take(indices(codes + of_new * len(had)))
        return cls(codes, rows, pa.array(OPS).take(indices(ops)))

    def table(self, names: Sequence[str], beside: Sequence[Any] = ()) -> "pa.Table":
        """Returns the rows as a table with the column names of an output.

        Args:
            names: Names of `beside`, of the columns of `rows`, and of the ops, in this order.
            beside: Columns that come first.
        """
        return pa.table([*beside, *self.rows.flatten(), self.ops], names=list(names))


def _apart(found: "dict[str, Any]") -> "tuple[Flags, Any]":
    """Returns flags of the keys that have records, and the results of each key as a struct."""
    has_records = longs(found.pop(_RECORDS)) > 0
    return has_records, pa.StructArray.from_arrays(list(found.values()), names=list(found))


def _counted(codes: Numbers, had: Flags, batch: pa.RecordBatch, signs: Numbers) -> Numbers:
    """Returns the positions of the records that count: all of them, if every key had records.

    A retraction for a key that had no records retracts an equal record that comes in the same epoch, before or after
    it. If there is none, it retracts a record that has expired or never came, and must not reduce other records.

    Args:
        codes: Number of each record's key.
        had: By that number, whether the key had records.
        batch: The records.
        signs: Signs of the records: 1 for an added record, -1 for a retracted one.
    """
    goes = signs < 0
    unsure_keys = np.zeros(len(had), bool)
    unsure_keys[codes[goes]] = True
    unsure_keys &= ~had
    if not unsure_keys.any():
        return np.arange(len(codes))
    candidates = np.flatnonzero(unsure_keys[codes])
    rows = batch.drop_columns([OP]).take(indices(candidates))
    numbers = row_numbers(rows.columns)
    net = np.bincount(numbers, signs[candidates])
    coming = np.flatnonzero(~goes[candidates])
    rank = Keys([indices(numbers[coming])], lambda _: []).running_counts()
    kept = candidates[coming[rank <= net[numbers[coming]]]]
    return np.sort(np.concatenate([np.flatnonzero(~unsure_keys[codes]), kept]))


def signs_of(ops: Any) -> Numbers:
    """Returns the sign of each record: 1 for an added record, -1 for a retracted one.

    Raises:
        ValueError: An op is none of `OPS`.
    """
    op_positions = pc.index_in(ops, pa.array(OPS))
    if op_positions.null_count:
        unknown = ops.filter(op_positions.is_null())[0].as_py()
        raise ValueError(f"a record has {OP}={unknown!r}; a changelog has one of {', '.join(OPS)} in each")
    return np.where(np.asarray(pc.starts_with(ops, "+")), 1, -1)


def with_op(verb: str, columns: StructType) -> StructType:
    """Returns the columns of a changelog of records.

    Raises:
        JobDefinitionError: The records have a column with the name `op`.
    """
    taken = next((name for name in columns.names if name.lower() == OP), None)
    if taken is not None:
        raise JobDefinitionError(
            f"{verb}() of a stream with a column {taken!r}: the rows of a changelog get one of this name.",
            action=renaming(taken),
        )
    return StructType((*columns.names, OP), (*columns.types, Types.STRING()))


def _check_op(columns: StructType) -> None:
    if OP not in columns.names or columns.types[columns.names.index(OP)] != Types.STRING():
        raise JobDefinitionError(
            f"aggregate() got retract, and a stream with {', '.join(columns.names)}.",
            action=f"A changelog has a column {OP!r} of text, with {', '.join(OPS)} in it: top_n gives one, and so do "
            "latest and aggregate with changelog=True.",
        )


__all__ = ["OP", "OPS", "ChangelogAggregation", "Changes", "signs_of", "with_op"]
