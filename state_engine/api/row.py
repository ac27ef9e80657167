"""Rows: the records that a function receives and may emit.

An input row is an instance of a class that is created once per schema (`row_class`). Its fields are read by attribute
in a few nanoseconds, as in PyFlink's named rows. Access by position or name in brackets works too, and is slower.
"""

import keyword
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec


class _RowKind(type(tuple)):  # type: ignore[misc]
    """Makes a row with names an instance of `Row`, as in PyFlink, although each schema has its own class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, InputRow) or super().__instancecheck__(instance)


class Row(tuple[Any, ...], metaclass=_RowKind):
    """A row that an author creates: `Row(1, "a")`, or with names, `Row(id=1, name="a")`, as in PyFlink."""

    __slots__ = ()

    def __new__(cls, *values: Any, **named: Any) -> "Row":
        if values and named:
            raise ValueError("A Row takes either positional or named values, not both.")
        return row_class(tuple(named))(*named.values()) if named else super().__new__(cls, values)  # type: ignore[return-value]

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)  # tuple's own method would nest the values in another row when pickled or copied

    def __setitem__(self, key: int | str, value: Any) -> None:
        raise TypeError(_IMMUTABLE)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Raises TypeError: only a row with names can be a dict."""
        raise TypeError(f"{self!r} has no names. Make it with names: Row(id=1, name='a').")

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Returns all values, as PyFlink does for a row without names."""
        return list(self)

    def __repr__(self) -> str:
        return f"Row({', '.join([repr(value) for value in self])})"


class InputRow(msgspec.Struct, frozen=True, gc=False):
    """Base of the classes that `row_class` creates: immutable, with access by attribute, position and name."""

    def __getitem__(self, item: int | str | slice) -> Any:
        if isinstance(item, str):
            try:
                return getattr(self, _attribute(self.field_names(), item))
            except ValueError:
                raise KeyError(item) from None
        return self.as_tuple()[item]

    def __setitem__(self, key: int | str, value: Any) -> None:
        raise TypeError(_IMMUTABLE)

    def __contains__(self, item: object) -> bool:
        return item in self.field_names()

    def __len__(self) -> int:
        return len(self.__struct_fields__)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.as_tuple())

    def field_names(self) -> tuple[str, ...]:
        """Returns the names of the fields as they are in the schema."""
        return _NAMES[type(self)]

    def as_tuple(self) -> tuple[Any, ...]:
        """Returns the values in order."""
        return msgspec.structs.astuple(self)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Returns the values by name.

        Args:
            recursive: Whether nested rows, also those in lists and maps, become dicts too.
        """
        values = map(_without_rows, self.as_tuple()) if recursive else self.as_tuple()
        return dict(zip(self.field_names(), values, strict=True))

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Returns the values of the named fields, in the order of `names`."""
        return [self[name] for name in names]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.field_names(), self.as_tuple())

    def __repr__(self) -> str:
        return "Row(" + ", ".join(f"{n}={v!r}" for n, v in self.as_dict().items()) + ")"


_IMMUTABLE = "A row cannot be changed. Make a new one: Row(...)."
_NAMES: dict[type, tuple[str, ...]] = {}
_RESERVED = frozenset(dir(InputRow))
_PLACEHOLDER = re.compile(r"f_\d+_")


def _attributes(names: tuple[str, ...]) -> list[str]:
    """Returns attribute names. Names that are invalid in Python or hide a method get a placeholder.

    Such fields can be read only by position and by name in brackets.
    """
    return [name if _usable(name) else f"f_{index}_" for index, name in enumerate(names)]


def _usable(name: str) -> bool:
    if not name.isidentifier() or keyword.iskeyword(name) or name in _RESERVED:
        return False
    if unicodedata.normalize("NFKC", name) != name:  # Python reads `row.ª` as `row.a`
        return False
    return not name.startswith("_") and _PLACEHOLDER.fullmatch(name) is None


def _attribute(names: tuple[str, ...], name: str) -> str:
    return _attributes(names)[names.index(name)]


@lru_cache(maxsize=1024)
def row_class(names: tuple[str, ...]) -> type[InputRow]:
    """Returns the row class of a schema; the same class for the same names."""
    made: Any = msgspec.defstruct("Row", _attributes(names), bases=(InputRow,), frozen=True, gc=False, module=__name__)
    _NAMES[made] = names
    return made  # type: ignore[no-any-return]


def _without_rows(value: Any) -> Any:
    if isinstance(value, InputRow):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_without_rows(item) for item in value]
    return {key: _without_rows(item) for key, item in value.items()} if isinstance(value, dict) else value


def _restore(names: tuple[str, ...], values: tuple[Any, ...]) -> InputRow:
    return row_class(names)(*values)


__all__ = ["InputRow", "Row", "row_class"]
