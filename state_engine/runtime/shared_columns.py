"""Records of several structures in one set of columns: fields of the same type share a column.

A column of fixed width costs an exchange space in every row, null or not; `docs/adr/0007-one-column-in-the-exchange.md`
has the measurements. So the records of a second structure use the columns of the first where the types are equal.
"""

from collections.abc import Mapping

from state_engine.api.types import StructType, TypeInformation

OWN = "__ls_"
"""Prefix of the names of the engine's own columns."""


class SharedColumns:
    """Columns for the records of several structures; those of the first structure keep their names and positions.

    Args:
        first: The first structure.
    """

    def __init__(self, first: StructType) -> None:
        self._names = list(first.names)
        self._types: list[TypeInformation] = list(first.types)

    @property
    def columns(self) -> StructType:
        """All columns so far."""
        return StructType(tuple(self._names), tuple(self._types))

    def take(self, struct: StructType, fixed: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Assigns a column to each field of one more structure; adds a column where no free one has the type.

        Args:
            struct: The structure.
            fixed: Fields with a given position, such as key columns; the types must be equal.

        Returns:
            The position of each field's column.
        """
        places = dict(fixed or {})
        free = [n for n in range(len(self._names)) if n not in places.values()]
        for name, type_ in zip(struct.names, struct.types, strict=True):
            if name in places:
                continue
            place = next((n for n in free if self._types[n].ddl() == type_.ddl()), None)
            if place is None:
                place = self.add(f"{OWN}{len(self._names)}", type_)
            else:
                free.remove(place)
            places[name] = place
        return tuple(places[name] for name in struct.names)

    def add(self, name: str, type_: TypeInformation) -> int:
        """Adds a column and returns its position."""
        self._names.append(name)
        self._types.append(type_)
        return len(self._names) - 1


__all__ = ["OWN", "SharedColumns"]
