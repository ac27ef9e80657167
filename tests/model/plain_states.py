"""Keyed states as plain lists and dicts of values with the time of their last access (docs/formats/last-access.md)."""

import copy
from typing import TYPE_CHECKING, Any

from commands import TTL, Ttl

from state_engine.api import StateDescriptor, TimeDomain

if TYPE_CHECKING:
    from plain_operator import PlainOperator

Entries = dict[Any, list[Any]]  # by user key; a value has the key None, a list has numbers; each a pair: value, time


class PlainState:
    """What all shapes share: the cells of the current key, and the effect of time on them."""

    def __init__(self, operator: "PlainOperator", name: str, ttl: Ttl | None) -> None:
        self._operator = operator
        self._name = name
        self._ttl = ttl

    @property
    def _entries(self) -> Entries:
        return self._operator.cells.setdefault((self._name, self._operator.entry), {})

    def clear(self) -> None:
        self._entries.clear()

    @property
    def _returns(self) -> bool:
        return self._ttl is not None and self._ttl.returns

    def _now(self) -> int | None:
        assert self._ttl is not None
        if not self._ttl.event:
            return self._operator.processing_time
        if self._operator.firing is TimeDomain.EVENT_TIME:
            return self._operator.timestamp
        return self._operator.watermark

    def _stamp(self) -> int | None:
        if self._ttl is None:
            return None
        if not self._ttl.event:
            return self._operator.processing_time
        own = self._operator.timestamp
        return self._now() if own is None or self._operator.firing is TimeDomain.PROCESSING_TIME else own

    def alive(self, at: int | None) -> bool:
        """Returns whether a value that was accessed then has not expired."""
        if self._ttl is None or at is None:
            return True
        now = self._now()
        return now is None or at + TTL > now

    def _renewed(self, at: int | None) -> int | None:
        if self._ttl is None:
            return None
        times = [time for time in (at, self._stamp()) if time is not None]
        if at is None:
            now = self._now()
            return max([*times, *([] if now is None else [now])], default=None)
        return max(times) if self._ttl.reads else at

    def _put(self, user_key: Any, value: Any) -> None:
        self._entries.pop(user_key, None)
        self._entries[user_key] = [copy.deepcopy(value), self._stamp()]

    def _read(self, user_key: Any) -> list[Any]:
        """Returns a list of the one value, or an empty one; removes what has expired, and renews."""
        if user_key not in self._entries:
            return []
        value, at = self._entries[user_key]
        if not self.alive(at):
            del self._entries[user_key]
            return [copy.deepcopy(value)] if self._returns else []
        self._entries[user_key][1] = self._renewed(at)
        return [copy.deepcopy(value)]


class PlainValue(PlainState):
    def value(self) -> Any:
        return next(iter(self._read(None)), None)

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
        else:
            self._put(None, value)


class PlainList(PlainState):
    def get(self) -> Any:
        elements = list(self._entries.values())
        living = [[value, self._renewed(at)] for value, at in elements if self.alive(at)]
        moved = any(self._renewed(at) != at for _, at in elements if self.alive(at))
        if moved or not living:  # expired elements are removed only when the list is written anyway
            self._entries.clear()
            self._entries.update(enumerate(living))
        return iter([value for value, at in elements if self._returns or self.alive(at)])

    def add(self, value: Any) -> None:
        self._put(max(self._entries, default=-1) + 1, value)

    def add_all(self, values: list[Any]) -> None:
        for value in values:
            self.add(value)

    def update(self, values: list[Any]) -> None:
        self.clear()
        self.add_all(values)


class PlainMap(PlainState):
    def put(self, key: Any, value: Any) -> None:
        self._put(key, value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self._put(key, value)

    def remove(self, key: Any) -> None:
        self._entries.pop(key, None)

    def get(self, key: Any) -> Any:
        return next(iter(self._read(key)), None)

    def contains(self, key: Any) -> bool:
        return bool(self._read(key))

    def items(self) -> list[Any]:
        return [(key, value) for key in list(self._entries) for value in self._read(key)]

    def is_empty(self) -> bool:
        return not [at for _, at in self._entries.values() if self._returns or self.alive(at)]


class PlainFolded(PlainState):
    def _held(self) -> Any:
        """Returns the value to which is added; an expired one only if it may be read."""
        value, at = self._entries.get(None, [None, None])
        return value if self._returns or self.alive(at) else None


class PlainSum(PlainFolded):
    def get(self) -> Any:
        return next(iter(self._read(None)), None)

    def add(self, value: Any) -> None:
        self._put(None, (self._held() or 0) + value)


class PlainMean(PlainFolded):
    def get(self) -> Any:
        return next((total / count for total, count in self._read(None)), None)

    def add(self, value: Any) -> None:
        total, count = self._held() or (0, 0)
        self._put(None, (total + value, count + 1))


_SHAPES = {"value": PlainValue, "list": PlainList, "map": PlainMap, "sum": PlainSum, "mean": PlainMean}


def plain_state(operator: "PlainOperator", descriptor: StateDescriptor, ttl: Ttl | None) -> PlainState:
    """Returns the state of a descriptor, which is named by its shape."""
    return _SHAPES[descriptor.name.split("_")[0]](operator, descriptor.name, ttl)
