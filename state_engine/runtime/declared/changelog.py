"""`KeyedStream.aggregate` with a changelog before or behind it: rows that say what they replace, and take it back.

Flink's changelog: each row has its `RowKind`. Here it is a column of text, so that any Spark sink can keep it.
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
"""What became of a row, as Flink spells its `RowKind`; those of one place are in this order."""
_RECORDS = "__ls_records_of_key"


class ChangelogAggregation(Declared):
    """Keeps aggregates per key; gives, of each key whose results an epoch changed, the old row and the new one.

    Args:
        key: The key columns.
        aggregates: By the name of the result.
        columns: Of the records.
        ttl: How long the numbers of a key are kept. What expires is not taken back.
        retract: Whether the records are a changelog, too: those that go, by their column `op`, are taken back. A key
            without records is given with `-D`.

    Attributes:
        output: Columns of the rows: the key, the results, and what became of them.

    Raises:
        JobDefinitionError: An aggregate cannot be made of these columns, or has the name of another one; or what came
            cannot be taken back from it.
    """

    verb = "aggregate"
    wants_all = True  # what goes may stand in front of what it takes back
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
                "which no row would say.",
                action="Leave out one of the three.",
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
                left = codes[keys.first]
                had, before = had[left], before.take(indices(left))
                latest = None if latest is None else latest.take(indices(left))
            found = self._aggregates.fold_signed(keys, batch, signs)
        else:
            found = self._aggregates.fold(keys, batch)
        each = keys.distinct
        has, after = _apart(found)
        self._aggregates.forget(each.take(np.flatnonzero(~has)))
        change = Changes.between(had, has, before, after)
        codes = indices(change.codes)
        columns = [*(column.take(codes) for column in each.columns), *change.rows.flatten(), change.ops]
        return ctx.timed(
            pa.table(columns, names=list(self.output.names)), None if latest is None else latest.take(codes)
        )


class Changes(NamedTuple):
    """The rows that say how some keys' rows changed; those of a key stand side by side, in order of their ops.

    Attributes:
        codes: Number of the key.
        rows: A struct.
        ops: What became of it, as text.
    """

    codes: Numbers
    rows: Any
    ops: Any

    @classmethod
    def between(cls, had: Flags, has: Flags, before: Any, after: Any) -> "Changes":
        """Compares rows, one per key.

        Args:
            had: Which keys had one.
            has: Which have one.
            before: What they had.
            after: What they have.
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
        """Returns them under the names of an output.

        Args:
            names: Of `beside`, of the columns of `rows`, and of the ops.
            beside: Columns that stand in front.
        """
        return pa.table([*beside, *self.rows.flatten(), self.ops], names=list(names))


def _apart(found: "dict[str, Any]") -> "tuple[Flags, Any]":
    """Returns which keys have records, and the results of each as a struct."""
    there = longs(found.pop(_RECORDS)) > 0
    return there, pa.StructArray.from_arrays(list(found.values()), names=list(found))


def _counted(codes: Numbers, had: Flags, batch: pa.RecordBatch, signs: Numbers) -> Numbers:
    """Returns the positions of the records that count, all of them where every key had records.

    What goes from a key that had none takes back its like among what comes in the epoch, in front of it or behind it,
    and otherwise what has expired or never came: that must not be taken from records that do come.

    Args:
        codes: Number of each record's key.
        had: By that number, whether the key had records.
        batch: The records.
        signs: Of the records.
    """
    goes = signs < 0
    in_question = np.zeros(len(had), bool)
    in_question[codes[goes]] = True
    in_question &= ~had
    if not in_question.any():
        return np.arange(len(codes))
    asked = np.flatnonzero(in_question[codes])
    rows = batch.drop_columns([OP]).take(indices(asked))
    numbers = row_numbers(rows.columns)
    net = np.bincount(numbers, signs[asked])
    coming = np.flatnonzero(~goes[asked])
    rank = Keys([indices(numbers[coming])], lambda _: []).running_counts()
    kept = asked[coming[rank <= net[numbers[coming]]]]
    return np.sort(np.concatenate([np.flatnonzero(~in_question[codes]), kept]))


def signs_of(ops: Any) -> Numbers:
    """Returns 1 of a record that comes, -1 of one that goes.

    Raises:
        ValueError: One says something else.
    """
    known = pc.index_in(ops, pa.array(OPS))
    if known.null_count:
        strange = ops.filter(known.is_null())[0].as_py()
        raise ValueError(f"a record has {OP}={strange!r}; a changelog has one of {', '.join(OPS)} in each")
    return np.where(np.asarray(pc.starts_with(ops, "+")), 1, -1)


def with_op(verb: str, columns: StructType) -> StructType:
    """Returns the columns of a changelog of records.

    Raises:
        JobDefinitionError: The records have a column of that name.
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
