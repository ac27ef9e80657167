"""Which column of a row is which part of its record."""

from typing import NamedTuple


class RecordColumns(NamedTuple):
    """The columns; None: the record has no such part.

    Attributes:
        key: Its key.
        value: Its value; None: a JSON object of all columns that are no other part.
        headers: Its headers, a map from texts to texts or bytes.
        partition: The number of its partition.
        topic: Its topic.
    """

    key: str | None = None
    value: str | None = None
    headers: str | None = None
    partition: str | None = None
    topic: str | None = None

    @property
    def named(self) -> list[str]:
        """The columns that are named."""
        return [name for name in self if name is not None]


__all__ = ["RecordColumns"]
