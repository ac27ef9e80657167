"""Keeps several aggregates by name, over the states that hold their parts."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import pyarrow as pa

from state_engine.api.aggregates import Aggregate
from state_engine.api.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers
from state_engine.api.types import INTEGERS, AtomicType, DecimalType, StructType, TypeInformation
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.accumulators import Accumulator, Collected, Combinable, Count, Edge, Extreme
from state_engine.runtime.declared.base import Declared
from state_engine.runtime.declared.local import Partial, is_partial, named
from state_engine.runtime.declared.numeric import Deviation, Mean, Sum
from state_engine.runtime.declared.retracting import Retracting, RetractingCount, retracting

_NAME_LIMIT = 128  # of a state
_WANTED = {
    "min": "Give a column whose values have an order.",
    "max": "Give a column whose values have an order.",
    "approx_count_distinct": "Give a column of atoms or decimals; for bytes, their text: select('hex(b) as b', ...).",
}


class Kept(NamedTuple):
    """Identifies state that several aggregates share: all quantiles of a column come from the same parts."""

    kind: str
    column: str | None


class NamedAggregates:
    """Keeps aggregates for the keys that it gets; aggregates of one function and column share their state.

    Each part of an aggregate is a state of its own, named by function, column and part, not by the name of the result.
    So a later release may rename a result, and another function does not continue from the wrong numbers.

    Args:
        aggregates: The aggregates by the name of the result.
        columns: Columns of the records.
        beside: Names of the columns next to the results, and what they are, for messages.
        retract: Whether records can be retracted.

    Attributes:
        types: Types of the results, by name.
        inputs: The columns that are aggregated.
        partials: The values that Spark may compute from a group of records, by column; None if any aggregate needs the
            records themselves.

    Raises:
        JobDefinitionError: An aggregate is not possible with these columns, or has the name of a column next to it.
    """

    def __init__(
        self,
        aggregates: Mapping[str, Aggregate],
        columns: StructType,
        beside: Mapping[str, str],
        *,
        retract: bool = False,
    ) -> None:
        _check(aggregates, {name.lower(): what for name, what in beside.items()})
        self._results = dict(aggregates)
        self._kept = {name: Kept(one.kind, one.column) for name, one in aggregates.items()}
        self._made = {name: _accumulator(name, one, columns, retract) for name, one in aggregates.items()}
        self._accumulators = {kept: self._made[name] for name, kept in self._kept.items()}
        self._check_states()
        self.types: dict[str, TypeInformation] = {name: one.result for name, one in self._made.items()}
        self.inputs = sorted({one.column for one in aggregates.values() if one.column is not None})
        wanted = {one: accumulator.partials(one.column) for one, accumulator in self._accumulators.items()}
        self._partials = {one: partials for one, partials in wanted.items() if partials is not None}
        self.partials: dict[str, Partial] | None = None
        if len(self._partials) == len(wanted):
            self.partials = named([partial for partials in self._partials.values() for partial in partials])

    def __str__(self) -> str:
        return described(self._results)

    def open(self, runtime_context: RuntimeContext, declared: Declared) -> None:
        """Gets the states, with the time to live of the operator."""
        self._states = {
            one: [_state(runtime_context, declared.kept(self._descriptor(one, part))) for part in made.parts]
            for one, made in self._accumulators.items()
        }

    def add(self, keys: Keys, batch: pa.RecordBatch) -> None:
        """Folds records, or partials of them, into the state of their keys.

        Raises:
            OverflowError: A sum outgrew its type.
        """
        self._added(keys, batch)

    def fold(self, keys: Keys, batch: pa.RecordBatch) -> dict[str, Any]:
        """As `add`, but returns the results of each distinct key, by name."""
        return self._given(keys.distinct, self._added(keys, batch))

    def fold_signed(self, keys: Keys, batch: pa.RecordBatch, signs: Numbers) -> dict[str, Any]:
        """As `fold`, for a changelog: `signs` is 1 for a record that is added, -1 for one that is retracted.

        Raises:
            OverflowError: A sum outgrew its type.
        """

        def merge(one: Kept, made: Accumulator, states: list[Any]) -> list[Any] | None:
            values = None if one.column is None else batch.column(one.column)
            return made.merge(keys, states, cast(Retracting, made).signed(signs, values))

        return self._given(keys.distinct, self._with_each(merge))

    def results(self, keys: Keys) -> dict[str, Any]:
        """Returns the current results of distinct keys, by name."""
        return self._given(keys, {})

    def forget(self, keys: Keys) -> None:
        """Deletes the state of distinct keys."""
        if len(keys):
            for states in self._states.values():
                for state in states:
                    state.remove_many(keys)

    def take(self, keys: Keys) -> dict[str, Any]:
        """Returns the results of distinct keys, by name, and deletes their state."""
        results = self.results(keys)
        self.forget(keys)
        return results

    def merge(self, groups: Keys, holders: Keys, others: Keys) -> None:
        """Merges the state of several groups of records.

        Args:
            groups: The groups, each once. Groups that are merged with each other are in the order of their records.
            holders: For each group, the group into which it is merged.
            others: The groups that are not holders: their state is deleted.

        Raises:
            OverflowError: A sum outgrew its type.
        """
        for one, made in self._accumulators.items():
            states = self._states[one]
            with self._naming(one):
                parts = cast(Combinable, made).combined(holders, made.read(groups, states))
            for state, part in zip(states, parts, strict=True):
                state.remove_many(others)
                state.put_many(holders.distinct, part)

    def _added(self, keys: Keys, batch: pa.RecordBatch) -> "dict[Kept, list[Any] | None]":
        """Folds a batch; returns the parts of each distinct key, for the aggregates that have them in memory."""
        names = {partial: name for name, partial in (self.partials or {}).items()} if is_partial(batch) else None

        def add(one: Kept, made: Accumulator, states: list[Any]) -> list[Any] | None:
            if names is not None:
                return made.merge(keys, states, [batch.column(names[partial]) for partial in self._partials[one]])
            return made.add(keys, states, None if one.column is None else batch.column(one.column))

        return self._with_each(add)

    def _with_each(
        self, do: "Callable[[Kept, Accumulator, list[Any]], list[Any] | None]"
    ) -> "dict[Kept, list[Any] | None]":
        """Calls `do` with each aggregate and its states; returns the parts that are in memory."""
        parts = {}
        for one, made in self._accumulators.items():
            with self._naming(one):
                parts[one] = do(one, made, self._states[one])
        return parts

    @contextmanager
    def _naming(self, one: Kept) -> Iterator[None]:
        """Adds the names of the results to the error for a sum that outgrew its type."""
        try:
            yield
        except OverflowError as error:
            results = " and ".join(repr(name) for name, other in self._kept.items() if other == one)
            raise OverflowError(f"{results}, the {one.kind} of {one.column!r}: {error}") from None

    def _given(self, each: Keys, parts: "Mapping[Kept, list[Any] | None]") -> dict[str, Any]:
        """Returns the results of distinct keys, by name; reads the parts that `parts` does not have."""
        all_parts = {}
        for one, states in self._states.items():
            part = parts.get(one)
            all_parts[one] = self._accumulators[one].read(each, states) if part is None else part
        return {name: made.given(all_parts[self._kept[name]]) for name, made in self._made.items()}

    def _check_states(self) -> None:
        """Refuses two aggregates with one state: state names allow fewer characters than column names do."""
        owners: dict[str, tuple[Kept, str]] = {}
        for one, made in self._accumulators.items():
            for part in made.parts:
                name = self._descriptor(one, part).name
                other, other_part = owners.setdefault(name, (one, part))
                if (other, other_part) != (one, part):
                    raise JobDefinitionError(
                        f"The {one.kind} of {one.column!r} and the {other.kind} of {other.column!r} have one state, "
                        f"{name!r}.",
                        action="Rename a column first: select('`a b` as c', ...).",
                    )

    def _descriptor(self, one: Kept, part: str) -> StateDescriptor:
        made = self._accumulators[one]
        name = re.sub("[^A-Za-z0-9_.-]", "_", "_".join(filter(None, [one.kind, one.column])))
        suffix = f".{part}" if len(made.parts) > 1 else ""
        return made.descriptor(name[: _NAME_LIMIT - len(suffix)] + suffix, part)


def _state(runtime_context: RuntimeContext, descriptor: StateDescriptor) -> Any:
    if isinstance(descriptor, ListStateDescriptor):
        return runtime_context.get_list_state(descriptor)
    if isinstance(descriptor, MapStateDescriptor):
        return runtime_context.get_map_state(descriptor)
    return runtime_context.get_state(cast(ValueStateDescriptor, descriptor))


def _accumulator(name: str, aggregate: Aggregate, columns: StructType, retract: bool = False) -> Accumulator:
    """Returns the accumulator of one aggregate.

    Args:
        name: Name of the result, for messages.
        aggregate: The aggregate.
        columns: Columns of the records.
        retract: Whether records can be retracted.

    Raises:
        JobDefinitionError: There is no such column, or it cannot be aggregated in this way.
    """
    kind = aggregate.kind
    if aggregate.column is None:
        return RetractingCount() if retract else Count()
    if aggregate.column not in columns.names:
        raise JobDefinitionError(
            f"{name} is the {kind} of {aggregate.column!r}; the stream has {', '.join(columns.names)}.",
            action="Check the spelling; names are case-sensitive here.",
        )
    column = columns.types[columns.names.index(aggregate.column)]
    if (retract and _is_number(column)) or (retract and kind not in ("sum", "avg")):
        return _retracting(name, aggregate, column)
    match kind:
        case "count":
            return Count()
        case "first" | "last":
            return Edge(column, kind)
        case "collect":
            return Collected(column)
        case "min" | "max" if isinstance(column, (AtomicType, DecimalType)):
            return Extreme(column, kind)
        case "sum" if _is_number(column):
            return Sum(column)
        case "avg" if _is_number(column):
            return Mean(column)
        case "stddev" if _is_number(column):
            return Deviation()
        case "approx_count_distinct" if isinstance(column, (AtomicType, DecimalType)) and column.ddl() != "binary":
            from state_engine.runtime.declared.sketches import DistinctCount  # its library is an extra

            return DistinctCount()
        case "approx_quantile" if aggregate.q is not None and _is_number(column):
            from state_engine.runtime.declared.sketches import Quantile

            return Quantile(aggregate.q)
    raise JobDefinitionError(
        f"{name} is the {kind} of {aggregate.column!r}, which is {column}.",
        action=_WANTED.get(kind, "Give a column of numbers."),
    )


def _retracting(name: str, aggregate: Aggregate, column: TypeInformation) -> Accumulator:
    """Returns the accumulator of one aggregate of a changelog.

    Raises:
        JobDefinitionError: The aggregate cannot retract records.
    """
    accumulator = retracting(aggregate.kind, column)
    if accumulator is None:
        raise JobDefinitionError(
            f"{name} is the {aggregate.kind} of {aggregate.column!r}, which is {column}: it cannot retract records.",
            action="From a changelog, use counts, sums and means of integers and decimals, and min and max of columns "
            "that are neither float nor double; cast these to decimals.",
        )
    return accumulator


def described(aggregates: Mapping[str, Aggregate]) -> str:
    """Describes aggregates in SQL syntax."""
    return ", ".join(f"{_call(one)} as {name}" for name, one in aggregates.items())


def _call(aggregate: Aggregate) -> str:
    arguments = [str(one) for one in (aggregate.column, aggregate.q) if one is not None]
    return f"{aggregate.kind}({', '.join(arguments)})"


def _is_number(column: TypeInformation) -> bool:
    return isinstance(column, DecimalType) or (
        isinstance(column, AtomicType) and column.name in INTEGERS | {"float", "double"}
    )


def _check(aggregates: Mapping[Any, Any], beside: Mapping[str, str]) -> None:
    if not aggregates:
        raise JobDefinitionError(
            "aggregate() got no aggregates.", action="Give some by name: aggregate({'n': Aggregate.count()})."
        )
    for name, one in aggregates.items():
        if not (isinstance(name, str) and isinstance(one, Aggregate)):
            raise JobDefinitionError(
                f"aggregate() got {name!r}: {one!r}.", action="Give names, and what Aggregate's methods make."
            )
        if name.lower() in beside:
            raise JobDefinitionError(
                f"The aggregate {name!r} has the name of {beside[name.lower()]}.", action="Rename it."
            )


__all__ = ["NamedAggregates", "described"]
