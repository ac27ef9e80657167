"""Heap tables: one state of one key-group range, as a base that stands for a manifest and an overlay of one epoch.

Reads go through the overlay to the base, writes go to the overlay. `freeze` turns the overlay into log rows and keeps
it pending; `settle` moves it into the base once the manifest that names those rows is known to be sealed; `forget`
drops it. Values that come back from Arrow as another Python value than went in (an int in a double) are read back, so
that a warm cache and a fresh load never differ.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from state_engine.api.types import TypeInformation
from state_engine.backends.stamps import split_stamps, stamped_type
from state_engine.log.ops import Op
from state_engine.serialization.convert import ValueTypeError, Writer, key_reader, reader, writer
from state_engine.serialization.equality import spelling_in, spells
from state_engine.serialization.mutability import (
    conformer,
    copier,
    finished_key_type,
    finished_type,
    key_conformer,
    plain_type,
    still_conforming,
)

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()
DELETED: Any = type("Deleted", (), {"__repr__": lambda self: "DELETED"})()


class StateValueError(Exception):
    """A function put a value into a state that its declared type does not admit.

    Attributes:
        entry: The entry key it was put under.
        cause: What is wrong with the value.
    """

    def __init__(self, entry: Any, cause: ValueTypeError) -> None:
        super().__init__(str(cause))
        self.entry = entry
        self.cause = cause


class LogRows:
    """Rows of one state's log, before they are sorted: entries, ops and (for maps) user keys and values.

    `times` are the last accesses of stamped values; None where every row has the epoch's time. Where `numbers` stand
    for the keys (`KeyNumbers`), there are no entries, and `namespaces` is a column.
    """

    __slots__ = ("entries", "namespaces", "numbers", "ops", "times", "user_keys", "values")

    def __init__(
        self,
        entries: list[Any],
        ops: Any,
        values: Any,
        user_keys: Any = None,
        times: Any = None,
        numbers: Any = None,
        namespaces: Any = None,
    ) -> None:
        self.entries = entries
        self.numbers = numbers
        self.ops = ops
        self.values = values
        self.user_keys = user_keys
        self.times = times
        self.namespaces = namespaces


_NONE = type(None)


class HeapTable(ABC):
    """Base of the three shapes of table.

    Args:
        value: Type of a value, an element, or the value of a map.
        stamped: Whether values are stamped with their last access (`stamps.py`): the state has a time to live.

    Attributes:
        stamped: As given.
        oldest: Earliest last access of the stamped rows that were applied since somebody began to look for expired ones
            among all; minus infinity if one is unknown, infinity without any.
        rows: Live rows of the base as its log would have them.
        conform: What a value goes through on its way in.
        finished: Class of the values that need not, such as int for integers; None where there is none.
        copy: What a value goes through on its way out, None where it cannot change.
        still_conforms: Says of a value that went in, and was added to as it is, whether it need not go in again; None
            where it has to.
    """

    def __init__(self, value: TypeInformation, stamped: bool = False) -> None:
        self.base: dict[Any, Any] = {}
        self.overlay: dict[Any, Any] = {}
        self.rows = 0
        self.stamped = stamped
        self.oldest = math.inf
        self.still_conforms = still_conforming(value)
        self._plain = plain_type(value)
        value = stamped_type(value) if stamped else value
        self.conform = conformer(value)
        self.finished = finished_type(value)
        self.copy = copier(value)
        self._read = reader(value)
        self._write = writer(value)

    @property
    def keys(self) -> int:
        """Entries of the base."""
        return len(self.base)

    def forget(self) -> None:
        """Drops the overlay and whatever is pending."""
        self.overlay = {}
        self._drop_pending()

    @abstractmethod
    def freeze(self) -> LogRows | None:
        """Returns the overlay as log rows and starts an empty one; None when nothing changed."""

    @abstractmethod
    def settle(self) -> None:
        """Moves what is pending into the base."""

    @abstractmethod
    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        """Applies log rows, in order, to the base. Entries of `RESET_GROUP` rows were handled by the caller."""

    @abstractmethod
    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        """Removes from the base what was accessed last at a time that has expired. Nothing is logged."""

    @abstractmethod
    def _drop_pending(self) -> None: ...

    def _may_hold(self, entry: Any) -> bool:
        """Whether rows of an entry may be in the log: what came and went within an epoch needs none that remove it.

        Of what has a time to live, the log may have what the base has dropped already.
        """
        return self.stamped or entry in self.base

    def _log_rows(self, entries: list[Any], ops: Any, values: Any, user_keys: Any = None) -> LogRows:
        """Returns rows whose values are as the log has them: without their stamps."""
        if not self.stamped:
            return LogRows(entries, ops, values, user_keys)
        values, times = split_stamps(values)
        return LogRows(entries, ops, values, user_keys, times)

    @staticmethod
    def _written(write: Writer, values: list[Any], entries: list[Any]) -> Any:
        try:
            return write(values)
        except ValueTypeError as error:
            raise StateValueError(entries[error.index], error) from None

    @staticmethod
    def _is_plain(plain: type | None, values: Iterable[Any]) -> bool:
        """Whether the values are those that Arrow would give back, so that nobody has to read them back."""
        return plain is not None and set(map(type, values)) <= {plain, _NONE}

    def _reads_alike(self, values: Iterable[Any]) -> bool:
        """Whether Arrow would give back the values, stamped or not, as they are."""
        if self.stamped:
            values = [None if value is None else value[0] for value in values]
        return self._is_plain(self._plain, values)

    def drop_entries(self, belongs: Callable[[Any], bool]) -> None:
        """Removes all entries for which `belongs` is true (a reset of key groups)."""
        for entry in [e for e in self.base if belongs(e)]:
            self._remove(entry)

    def _remove(self, entry: Any) -> None:
        self.base.pop(entry, None)
        self.rows = len(self.base)


class ValueTable(HeapTable):
    """Entry to value; None in the overlay is a delete, since no value state can hold None."""

    def __init__(self, value: TypeInformation, stamped: bool = False) -> None:
        super().__init__(value, stamped)
        self._pending: tuple[dict[Any, Any], Any] | None = None

    def freeze(self) -> LogRows | None:
        overlay = self.overlay
        if not overlay:
            return None
        array = self._written(self._write, list(overlay.values()), list(overlay))
        if array.null_count:
            told = [value is not None or self._may_hold(entry) for entry, value in overlay.items()]
            if not all(told):
                overlay, array = dict(compress(overlay.items(), told)), array.filter(pa.array(told))
        self.overlay, self._pending = {}, (overlay, array)
        if not overlay:
            return None
        ops = np.full(len(overlay), Op.PUT, dtype=np.int8)
        if array.null_count:
            ops[array.is_null().to_numpy(zero_copy_only=False)] = Op.DELETE
        return self._log_rows(list(overlay), ops, array)

    def settle(self) -> None:
        if self._pending is None:
            return
        overlay, array = self._pending
        self._pending = None
        if not self._reads_alike(overlay.values()):
            overlay = dict(zip(overlay, self._read(array), strict=True))
        self.base.update(overlay)
        if array.null_count:
            for entry in [e for e, v in overlay.items() if v is None]:
                del self.base[entry]
        self.rows = len(self.base)

    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        read = self._read(values)
        if (ops == Op.PUT).all():
            self.base.update(zip(entries, read, strict=True))
        else:
            for entry, op, value in zip(entries, ops.tolist(), read, strict=True):
                if op == Op.PUT:
                    self.base[entry] = value
                else:
                    self.base.pop(entry, None)
        self.rows = len(self.base)

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        for entry in [entry for entry, stamped in self.base.items() if expired(stamped[1])]:
            del self.base[entry]
        self.rows = len(self.base)

    def _drop_pending(self) -> None:
        self._pending = None


class ListDelta(msgspec.Struct, gc=False):
    """What an epoch did to one list: cleared it first or not, and appended."""

    cleared: bool = False
    appended: list[Any] = []


class ListTable(HeapTable):
    """Entry to list."""

    def __init__(self, value: TypeInformation, stamped: bool = False) -> None:
        super().__init__(value, stamped)
        self._pending: tuple[dict[Any, ListDelta], Any, bool] | None = None

    def freeze(self) -> LogRows | None:
        overlay = self.overlay
        if not overlay:
            return None
        entries: list[Any] = []
        ops: list[int] = []
        values: list[Any] = []
        for entry, delta in overlay.items():
            delta.cleared = delta.cleared and self._may_hold(entry)
            if delta.cleared:
                entries.append(entry)
                ops.append(Op.CLEAR)
                values.append(None)
            entries.extend([entry] * len(delta.appended))
            ops.extend([Op.APPEND] * len(delta.appended))
            values.extend(delta.appended)
        array = self._written(self._write, values, entries)
        self.overlay, self._pending = {}, (overlay, array, self._reads_alike(values))
        return self._log_rows(entries, np.array(ops, dtype=np.int8), array) if entries else None

    def settle(self) -> None:
        for entry, delta in self._taken().items():
            if delta.cleared:
                self._remove(entry)
            self._extend(entry, delta.appended)

    def _taken(self) -> dict[Any, ListDelta]:
        """Returns what was pending, as Arrow gives it back, and keeps nothing pending."""
        if self._pending is None:
            return {}
        overlay, array, plain = self._pending
        self._pending = None
        if not plain:
            read = iter(self._read(array))
            for delta in overlay.values():
                if delta.cleared:
                    next(read)
                delta.appended = [next(read) for _ in delta.appended]
        return overlay

    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        for entry, op, value in zip(entries, ops.tolist(), self._read(values), strict=True):
            if op == Op.APPEND:
                self._extend(entry, [value])
            else:
                self._remove(entry)

    def _extend(self, entry: Any, appended: list[Any]) -> None:
        if appended:
            self.base.setdefault(entry, []).extend(appended)
            self.rows += len(appended)

    def _remove(self, entry: Any) -> None:
        self.rows -= len(self.base.pop(entry, ()))

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        for entry, elements in list(self.base.items()):
            kept = [element for element in elements if not expired(element[1])]
            if len(kept) < len(elements):
                self._remove(entry)
                self._extend(entry, kept)

    def _drop_pending(self) -> None:
        self._pending = None


class MapDelta(msgspec.Struct, gc=False):
    """What an epoch did to one map: cleared it first or not, then put or `DELETED` entries."""

    cleared: bool = False
    entries: dict[Any, Any] = {}


class MapTable(HeapTable):
    """Entry to dict of user keys.

    Args:
        user_key: Type of a user key.
        value: As of `HeapTable`.
        stamped: As of `HeapTable`.

    Attributes:
        conform_key: What a user key goes through before it is looked up.
        finished_key: Class of the user keys that need not, such as str for strings; None where there is none.
        spells: Says of such a key whether an equal one may be spelled differently; None where none is.
    """

    def __init__(self, user_key: TypeInformation, value: TypeInformation, stamped: bool = False) -> None:
        super().__init__(value, stamped)
        self._read_key = key_reader(user_key)
        self._write_key = writer(user_key)
        self.conform_key, self.finished_key = key_conformer(user_key), finished_key_type(user_key)
        self.spells = spells(user_key)
        self._plain_key = plain_type(user_key)
        self._pending: tuple[dict[Any, MapDelta], Any, Any, bool] | None = None

    def spelled(self, entry: Any, user_key: Any) -> Any:
        """Returns a user key as the map of an entry in the base spells it; as it is given where it is not there."""
        return spelling_in(self.base.get(entry, {}), user_key)

    def freeze(self) -> LogRows | None:
        overlay = self.overlay
        if not overlay:
            return None
        entries: list[Any] = []
        user_keys: list[Any] = []
        values: list[Any] = []
        clears: list[int] = []
        for entry, delta in overlay.items():
            delta.cleared = delta.cleared and self._may_hold(entry)
            if delta.cleared:
                clears.append(len(entries))
                entries.append(entry)
                user_keys.append(None)
                values.append(DELETED)
            entries.extend([entry] * len(delta.entries))
            user_keys.extend(delta.entries)
            values.extend(delta.entries.values())
        deleted = [value is DELETED for value in values]
        ops = np.where(deleted, np.int8(Op.DELETE), np.int8(Op.PUT))
        ops[clears] = Op.CLEAR
        values = [None if value is DELETED else value for value in values] if any(deleted) else values
        keys_array = self._written(self._write_key, user_keys, entries)
        array = self._written(self._write, values, entries)
        plain = self._is_plain(self._plain_key, user_keys) and self._reads_alike(values)
        self.overlay, self._pending = {}, (overlay, keys_array, array, plain)
        return self._log_rows(entries, ops, array, keys_array) if entries else None

    def settle(self) -> None:
        for entry, delta in self._taken().items():
            if delta.cleared:
                self._remove(entry)
            self._merge(entry, delta.entries)

    def _taken(self) -> dict[Any, MapDelta]:
        """Returns what was pending, as Arrow gives it back, and keeps nothing pending."""
        if self._pending is None:
            return {}
        overlay, keys_array, array, plain = self._pending
        self._pending = None
        if not plain:
            read = iter(zip(self._read_key(keys_array), self._read(array), strict=True))
            for delta in overlay.values():
                if delta.cleared:
                    next(read)
                entries, delta.entries = delta.entries, {}
                for value in entries.values():
                    put_key, put_value = next(read)
                    delta.entries.pop(put_key, None)  # two keys may be one in the log
                    delta.entries[put_key] = DELETED if value is DELETED else put_value
        return overlay

    def _merge(self, entry: Any, entries: dict[Any, Any]) -> None:
        """As `_put`, for several user keys."""
        inner = self.base.get(entry)
        if inner is None:
            inner = self.base[entry] = {}
        before = len(inner)
        for user_key, value in entries.items():
            inner.pop(user_key, None)
            if value is not DELETED:
                inner[user_key] = value  # behind all others, as a load from the folded log has it
        self.rows += len(inner) - before
        if not inner:
            del self.base[entry]

    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        rows = zip(entries, ops.tolist(), self._read_key(user_keys), self._read(values), strict=True)
        for entry, op, user_key, value in rows:
            if op == Op.CLEAR:
                self._remove(entry)
            else:
                self._put(entry, user_key, value if op == Op.PUT else DELETED)

    def _put(self, entry: Any, user_key: Any, value: Any) -> None:
        if value is DELETED:
            inner = self.base.get(entry)
            if inner is not None and inner.pop(user_key, MISSING) is not MISSING:
                self.rows -= 1
                if not inner:
                    del self.base[entry]
            return
        inner = self.base.setdefault(entry, {})
        if inner.pop(user_key, MISSING) is MISSING:
            self.rows += 1
        inner[user_key] = value  # behind all others, as in `_merge`

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        for entry, inner in list(self.base.items()):
            for user_key in [user_key for user_key, stamped in inner.items() if expired(stamped[1])]:
                self._put(entry, user_key, DELETED)

    def _remove(self, entry: Any) -> None:
        self.rows -= len(self.base.pop(entry, ()))

    def _drop_pending(self) -> None:
        self._pending = None


__all__ = [
    "DELETED",
    "MISSING",
    "HeapTable",
    "ListDelta",
    "ListTable",
    "LogRows",
    "MapDelta",
    "MapTable",
    "StateValueError",
    "ValueTable",
]
