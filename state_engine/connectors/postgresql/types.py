"""Arrow types as types of PostgreSQL, and the columns of a table that take them without a loss."""

import msgspec
import pyarrow as pa

from state_engine.connectors.json_columns import json_of

_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp without time zone",
}

_INTEGERS = ("smallint", "integer", "bigint")

_HOLDS = {
    "smallint": ("integer", "bigint", "real", "double precision"),
    "integer": ("smallint", "bigint", "double precision"),
    "bigint": ("smallint", "integer"),
    "real": ("double precision",),
    "text": ("character varying", "citext", "json", "jsonb", "uuid", "inet", "cidr", "macaddr", "xml", "ltree"),
    "jsonb": ("json", "text", "character varying"),
}
"""The other types that hold each value of a type as it is, or refuse it with an error. To others PostgreSQL would round
the values, or cut them."""

_SAME_BYTES = {"text": ("character varying",)}
"""The types of columns to which the values of a type can be copied as they are."""


def postgres_type(data_type: pa.DataType) -> str:
    """Returns the type of a column; `jsonb` for what PostgreSQL has no type for: structs, maps, lists of lists."""
    if data_type in _TYPES:
        return _TYPES[data_type]
    if pa.types.is_timestamp(data_type):
        return "timestamp with time zone"
    if pa.types.is_decimal(data_type):
        return f"numeric({data_type.precision},{data_type.scale})"
    if pa.types.is_list(data_type) and not pa.types.is_nested(data_type.value_type):
        return f"{_bare(postgres_type(data_type.value_type))}[]"
    return "jsonb"


class TableColumn(msgspec.Struct, frozen=True):
    """A column of an existing table.

    Attributes:
        name: Its name.
        type: Its type with modifiers, as PostgreSQL spells it (`numeric(18,2)`); that of a domain is its base type.
        is_enum: Whether its type is an enumeration.
        is_domain: Whether it is a domain, with constraints of its own.
        must_be_given: Whether it is neither nullable nor filled by PostgreSQL.
    """

    name: str
    type: str
    is_enum: bool
    is_domain: bool
    must_be_given: bool

    @property
    def cast(self) -> str:
        """The type to cast to: without a length. A cast to `varchar(3)` would cut, an assignment refuses."""
        return _bare(self.type)

    def takes(self, data_type: pa.DataType) -> bool:
        """Returns whether it holds every value of an Arrow type, or refuses it with an error."""
        ours, theirs = postgres_type(data_type), _bare(self.type)
        bare = _bare(ours)
        if self.is_enum:
            return bare == "text"
        if theirs == "numeric" and bare in ("numeric", *_INTEGERS):  # with a smaller scale it would round
            return self.type == "numeric" or _scale(self.type) >= _scale(ours)
        if theirs.startswith("time") and "(" in self.type:
            return False  # with fewer digits of a second
        return theirs == bare or theirs in _HOLDS.get(bare, ())

    def takes_bytes(self, data_type: pa.DataType) -> bool:
        """Returns whether values can be copied to it as they are, without a cast."""
        if self.is_enum or self.is_domain or postgres_type(data_type) == "jsonb":
            return False
        ours, theirs = _bare(postgres_type(data_type)), _bare(self.type)
        return theirs == ours or theirs in _SAME_BYTES.get(ours, ())


def _bare(named: str) -> str:
    """Returns a type without its modifiers: `timestamp(3) with time zone` is `timestamp with time zone`."""
    before, opening, rest = named.partition("(")
    return before + rest.partition(")")[2] if opening else named


def _scale(named: str) -> int:
    return int(named.partition(",")[2].rstrip(")[]") or 0)


def with_json(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch with the columns that PostgreSQL has no type for as texts in JSON."""
    columns = [json_of(column) if postgres_type(column.type) == "jsonb" else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def written_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema of `with_json`."""
    fields = [(f.name, pa.string() if postgres_type(f.type) == "jsonb" else f.type) for f in schema]
    return pa.schema(fields)


__all__ = ["TableColumn", "postgres_type", "with_json", "written_schema"]
