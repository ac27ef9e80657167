"""The base of all durable records, and a column as they spell it."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all durable records: immutable, and a field that we do not know is an error."""


class Column(Record):
    """One column by name and Spark DDL type, such as `("tailnum", "string")`."""

    name: str
    type: str


__all__ = ["Column", "Record"]
