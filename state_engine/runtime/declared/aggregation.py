"""`KeyedStream.aggregate`: what the records of a key come to so far, once per key and epoch."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from state_engine.api.aggregates import Aggregate
from state_engine.api.descriptors import ValueStateDescriptor
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.accumulators import accumulator
from state_engine.runtime.declared.base import Declared


class Aggregation(Declared):
    """Keeps aggregates per key; gives, of each key that an epoch has records of, one row with all of them.

    Each part of an aggregate is a value state of its own, named by function, column and part, not by what the result is
    called: a later release may rename a result, and another function does not go on from the wrong numbers.

    Args:
        key: The key columns.
        aggregates: By the name of the result.
        columns: Of the records.
        ttl: How long the numbers of a key are kept.

    Attributes:
        output: Columns of the rows: the key, then the results.

    Raises:
        JobDefinitionError: An aggregate cannot be made of these columns, or has the name of another or of a key.
    """

    verb = "aggregate"

    def __init__(
        self,
        key: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        columns: StructType,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        super().__init__(ttl)
        _check(key, aggregates)
        self._key = tuple(key)
        self._results = dict(aggregates)
        made = {name: accumulator(name, one, columns) for name, one in aggregates.items()}
        self._accumulators = {one: made[name] for name, one in aggregates.items()}
        key_types = [columns.types[columns.names.index(name)] for name in key]
        self.output = StructType((*key, *made), (*key_types, *(one.result for one in made.values())))

    @property
    def argument(self) -> str:
        return ", ".join(f"{one.kind}({one.column or ''}) as {name}" for name, one in self._results.items())

    def open(self, runtime_context: RuntimeContext) -> None:
        self._states = {
            one: [runtime_context.get_state(self._descriptor(one, part)) for part in made.parts]
            for one, made in self._accumulators.items()
        }

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        each = keys.distinct
        given = {}
        for one, made in self._accumulators.items():
            values = None if one.column is None else batch.column(one.column)
            states = self._states[one]
            parts = made.folded(keys, [state.get_many(each) for state in states], values)
            for state, part in zip(states, parts, strict=True):
                state.put_many(each, part)
            given[one] = made.given(parts)
        rows = dict(zip(self._key, each.columns, strict=True)) | {
            name: given[one] for name, one in self._results.items()
        }
        return ctx.timed(pa.table(rows), keys.latest_times if keys.times is not None else pa.nulls(len(each)))

    def _descriptor(self, one: Aggregate, part: str) -> ValueStateDescriptor:
        parts = self._accumulators[one].parts
        name = "_".join(filter(None, [one.kind, one.column])) + (f".{part}" if len(parts) > 1 else "")
        descriptor = ValueStateDescriptor(re.sub("[^A-Za-z0-9_.-]", "_", name)[:128], parts[part])
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        return descriptor


def _check(key: Sequence[str], aggregates: Mapping[str, Aggregate]) -> None:
    if not aggregates:
        raise JobDefinitionError(
            "aggregate() got no aggregates.", action="Give some by name: aggregate({'n': Aggregate.count()})."
        )
    for name, one in aggregates.items():
        if not isinstance(one, Aggregate):
            raise JobDefinitionError(
                f"aggregate() got {name!r}: {one!r}.", action="Give names, and what Aggregate's methods make."
            )
        if name.lower() in {column.lower() for column in key}:
            raise JobDefinitionError(f"The aggregate {name!r} has the name of a key column.", action="Rename it.")


__all__ = ["Aggregation"]
