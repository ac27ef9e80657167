"""Programs that can be declared, as data: what is kept of the records of each key; and their forms.

Each program keeps a table with rows of each key, which is a function of the key's records so far. Forms emit changes of
it: whole tables (the row form and the form by columns), rows that replace each other, or a changelog.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from state_engine.api import Aggregate, KeyedBatchProcessFunction, KeyedProcessFunction, ListStateDescriptor
from state_engine.api.type_hints import parse_columns_ddl, parse_ddl
from state_engine.api.types import StructType
from state_engine.runtime.declared.aggregation import Aggregation
from state_engine.runtime.declared.changelog import ChangelogAggregation
from state_engine.runtime.declared.deduplication import Deduplication
from state_engine.runtime.declared.latest import Latest
from state_engine.runtime.declared.top_n import TopN
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.types import to_arrow

VERBS = ["aggregate", "deduplicate", "latest", "latest by", "top_n"]
AGGREGATES = {
    "records": Aggregate.count(),
    "values": Aggregate.count("o"),
    "total": Aggregate.sum("n"),
    "least": Aggregate.min("o"),
    "largest": Aggregate.max("o"),
    "first": Aggregate.first("v"),
    "last": Aggregate.last("v"),
    "all": Aggregate.collect("o"),
}


class Item(NamedTuple):
    """A record: its key, a value that has an order, and any value."""

    key: tuple[Any, ...]
    o: Any
    v: Any


@dataclass(frozen=True)
class Kept:
    """A program.

    Attributes:
        key: Types of the key columns.
        order: Type of `o`.
        type: Type of `v`.
        verb: What is kept of the records of a key.
        n: Of `top_n`, how many.
        descending: Of `top_n`, whether the largest come first.
    """

    key: tuple[str, ...]
    order: str
    type: str
    verb: str
    n: int = 2
    descending: bool = True

    @property
    def key_columns(self) -> list[str]:
        return [f"k{n}" for n in range(len(self.key))]

    @property
    def input(self) -> StructType:
        """Columns of the records."""
        keys = [f"{name} {kind}" for name, kind in zip(self.key_columns, self.key, strict=True)]
        return parse_columns_ddl(", ".join([*keys, f"n bigint, o {self.order}, v {self.type}"]))

    @property
    def record(self) -> str:
        """Type of the part of a record that is kept."""
        return f"struct<n:bigint,o:{self.order},v:{self.type}>"

    @property
    def row(self) -> str:
        """Type of a row of the table, without its key."""
        if self.verb == "aggregate":
            return (
                f"struct<records:bigint,values:bigint,total:bigint,least:{self.order},largest:{self.order},"
                f"first:{self.type},last:{self.type},all:array<{self.order}>>"
            )
        return self.record

    @property
    def output(self) -> StructType:
        """Columns of the forms that emit whole tables."""
        keys = [f"{name} {kind}" for name, kind in zip(self.key_columns, self.key, strict=True)]
        return parse_columns_ddl(", ".join([*keys, f"of array<{self.row}>"]))


def rank(value: Any) -> Any:
    """Returns the rank by which values are ordered: null is less than every value, NaN larger than every number."""
    if value is None:
        return (0,)
    return (2,) if value != value else (1, value)


def table_of(program: Kept, records: list[Any]) -> list[tuple[Any, ...]]:
    """Returns the rows of the table of a key that has had these records: triples of `n`, `o` and `v`."""
    match program.verb:
        case "deduplicate":
            return [tuple(records[0])]
        case "latest":
            return [tuple(records[-1])]
        case "latest by":
            newest = records[0]
            for record in records[1:]:
                newest = record if rank(record[1]) >= rank(newest[1]) else newest
            return [tuple(newest)]
        case "top_n":
            ordered = sorted(records, key=lambda record: rank(record[1]), reverse=program.descending)
            return [tuple(record) for record in ordered[: program.n]]
    held = [o for _, o, _ in records if o is not None]
    values = [v for _, _, v in records if v is not None]
    return [
        (
            len(records), len(held), sum(n for n, _, _ in records), min(held, key=rank, default=None),
            max(held, key=rank, default=None), values[0] if values else None, values[-1] if values else None, held,
        )
    ]  # fmt: skip


class ByRow(KeyedProcessFunction):
    """Keeps all records of a key, and emits its whole table for each of them."""

    def __init__(self, program: Kept) -> None:
        self.program = program

    def open(self, runtime_context: Any) -> None:
        kind = parse_ddl(self.program.record)
        self.records = runtime_context.get_list_state(ListStateDescriptor("records", kind))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.records.add((value.n, value.o, value.v))
        key = ctx.get_current_key()
        yield *(key if len(self.program.key) > 1 else (key,)), table_of(self.program, list(self.records.get()))


class ByBatch(ByRow, KeyedBatchProcessFunction):
    """The same by columns: the whole table of each key of a batch, once."""

    def process_batch(self, keys: Any, batch: Any, ctx: Any) -> Iterator[Any]:
        kind = to_arrow(parse_ddl(self.program.record))
        parts = [batch.column(name) for name in ("n", "o", "v")]
        self.records.add_many(keys, pa.StructArray.from_arrays(parts, fields=list(kind)))
        each = keys.distinct
        lists = reader(parse_ddl(f"array<{self.program.record}>"))(self.records.get_many(each))
        tables = writer(parse_ddl(f"array<{self.program.row}>"))([table_of(self.program, one) for one in lists])
        yield pa.table([*each.columns, tables], names=[*self.program.key_columns, "of"])


def forms_of(program: Kept) -> list[str]:
    """Returns the forms that a program has."""
    changelog = ["changelog"] if program.verb in ("aggregate", "latest", "latest by") else []
    return ["row", "batch", "declared", "declared", *changelog]


def function_of(program: Kept, form: str) -> Any:
    """Returns a program in a form."""
    if form in ("row", "batch"):
        return (ByRow if form == "row" else ByBatch)(program)
    changelog, columns = form == "changelog", program.input
    match program.verb:
        case "aggregate" if changelog:
            return ChangelogAggregation(program.key_columns, AGGREGATES, columns, None, retract=False)
        case "aggregate":
            return Aggregation(program.key_columns, AGGREGATES, columns, None)
        case "deduplicate":
            return Deduplication(columns, None)
        case "latest" | "latest by" as verb:
            return Latest(columns, "o" if verb == "latest by" else None, None, changelog=changelog)
    return TopN(columns, program.n, "o", descending=program.descending, ttl=None)


def added(keyed: Any, program: Kept, form: str, uid: str) -> Any:
    """Adds a program to a keyed stream of a job."""
    if form in ("row", "batch"):
        return keyed.process(function_of(program, form), program.output, uid=uid)
    changelog = form == "changelog"
    match program.verb:
        case "aggregate":
            return keyed.aggregate(AGGREGATES, changelog=changelog, uid=uid)
        case "deduplicate":
            return keyed.deduplicate(uid=uid)
        case "latest" | "latest by" as verb:
            return keyed.latest(by="o" if verb == "latest by" else None, changelog=changelog, uid=uid)
    return keyed.top_n(program.n, by="o", descending=program.descending, uid=uid)


def output_of(program: Kept, form: str) -> StructType:
    """Returns the columns of a form's rows."""
    if form in ("row", "batch"):
        return program.output
    function = function_of(program, form)
    return program.input if program.verb == "deduplicate" else function.output


__all__ = ["VERBS", "Item", "Kept", "added", "forms_of", "function_of", "output_of", "rank", "table_of"]
