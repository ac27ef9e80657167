"""The meaning of operations on state, in plain Python: tests compare the vectorised fold with it.

It applies one row after the other to nested dictionaries. It is simple, and therefore slow, on purpose.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from state_engine.log.ops import KEY_GROUP, LAST_ACCESS, NAMESPACE, OP, POSITION, SEQ, USER_KEY, VALUE, Op
from state_engine.log.records import StateSchema

Entry = tuple[Hashable, ...]
LiveRow = tuple[Any, ...]


class ReferenceState:
    """The contents of one state after the rows of its log.

    `groups` is key group -> (key, namespace) -> content. The content of a value is `(value, last_access)`, that of a
    list a list of such pairs, that of a map a dictionary of such pairs by user key.
    """

    def __init__(self, schema: StateSchema) -> None:
        self._schema = schema
        self._keys = [column.name for column in schema.key]
        self.groups: dict[int, dict[Entry, Any]] = {}

    def apply_all(self, rows: Iterable[Mapping[str, Any]]) -> "ReferenceState":
        """Applies rows in order of (position, seq) and returns itself."""
        for row in sorted(rows, key=lambda row: (row[POSITION], row[SEQ])):
            self.apply(row)
        return self

    def apply(self, row: Mapping[str, Any]) -> None:
        """Applies one row of the log."""
        op = Op[row[OP].upper()] if isinstance(row[OP], str) else Op(row[OP])
        if op is Op.RESET_GROUP:
            self.groups.pop(row[KEY_GROUP], None)
            return
        entries = self.groups.setdefault(row[KEY_GROUP], {})
        entry = (*(hashable(row[name]) for name in self._keys), hashable(row[NAMESPACE]))
        content = (hashable(row[VALUE]), row[LAST_ACCESS])
        if op is Op.CLEAR:
            entries.pop(entry, None)
        elif self._schema.shape == "list":
            entries.setdefault(entry, []).append(content)
        elif self._schema.shape == "map":
            self._apply_to_map(entries, entry, op, hashable(row[USER_KEY]), content)
        elif op is Op.PUT:
            entries[entry] = content
        else:
            entries.pop(entry, None)

    def live(self) -> list[LiveRow]:
        """Returns (key group, *key, namespace, [user key,] value, last_access) per live row, comparable by `==`.

        The rows are sorted by their `repr`; the elements of a list keep their order.
        """
        rows: list[LiveRow] = []
        for group, entries in self.groups.items():
            for entry, content in entries.items():
                if self._schema.shape == "list":
                    rows.append((group, *entry, tuple(content)))
                elif self._schema.shape == "map":
                    rows += [(group, *entry, user_key, *cell) for user_key, cell in content.items()]
                else:
                    rows.append((group, *entry, *content))
        return sorted((row for row in rows if row[-1] != ()), key=repr)

    @staticmethod
    def _apply_to_map(
        entries: dict[Entry, Any], entry: Entry, op: Op, user_key: Hashable, content: tuple[Any, Any]
    ) -> None:
        cells = entries.setdefault(entry, {})
        if op is Op.PUT:
            cells[user_key] = content
        else:
            cells.pop(user_key, None)


def hashable(value: Any) -> Hashable:
    """Converts nested lists and dictionaries to a hashable value in which NaN equals itself."""
    if isinstance(value, dict):
        return ("struct", *((name, hashable(field)) for name, field in value.items()))
    if isinstance(value, list):
        return ("list", *(hashable(element) for element in value))
    if isinstance(value, float) and value != value:
        return "NaN"
    return value  # type: ignore[no-any-return]


__all__ = ["Entry", "LiveRow", "ReferenceState", "hashable"]
