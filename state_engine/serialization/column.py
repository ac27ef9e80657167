"""The base of all durable records, and a column as they store it."""

from typing import Any

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of all durable records: immutable, and an unknown field is an error."""

    def __reduce__(self) -> tuple[Any, ...]:
        # msgspec's own method passes the fields by position, which keyword-only fields do not accept
        return _rebuild, (type(self), msgspec.structs.asdict(self))


def _rebuild(kind: type[Record], fields: dict[str, Any]) -> Record:
    return kind(**fields)


class Column(Record, frozen=True, kw_only=True):
    """One column by name and Spark DDL type, such as `("tailnum", "string")`."""

    name: str
    type: str


__all__ = ["Column", "Record"]
