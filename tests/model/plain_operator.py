"""An operator with all its subtasks in plain Python: what the engine has to do, without logs, caches and columns."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from commands import Ttl, obey, on_timer
from plain_states import PlainState, plain_state

from state_engine.api import StateDescriptor, TimeDomain
from state_engine.backends.keys import KeyCodec, Namespaced
from state_engine.key_groups import subtask_of
from state_engine.serialization.types import parse_columns

MAX_PARALLELISM = 8
_CODEC = KeyCodec(parse_columns("k bigint"), MAX_PARALLELISM)
Row = tuple[Any, str]


class Content(NamedTuple):
    """All sealed state, as a snapshot has it."""

    cells: dict[Any, dict[Any, list[Any]]]
    timers: dict[TimeDomain, set[tuple[int, Any]]]
    lists: dict[str, list[list[Any]]]
    rules: dict[str, int]
    processing_time: int
    watermark: int | None


class PlainOperatorList:
    """An operator list as the current subtask sees it."""

    def __init__(self, operator: "PlainOperator", name: str) -> None:
        self._operator = operator
        self._name = name

    def get(self) -> Iterator[Any]:
        own = self._operator.subtask
        if self._name == "notes":
            return iter([*self._operator.lists["notes"][own]])
        sealed = self._operator.sealed_lists["union"]  # changes of other subtasks are visible once they are sealed
        parts = [self._operator.lists["union"][n] if n == own else part for n, part in enumerate(sealed)]
        return iter([element for part in parts for element in part])

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: list[Any]) -> None:
        self._operator.lists[self._name][self._operator.subtask] += values

    def update(self, values: list[Any]) -> None:
        self._operator.lists[self._name][self._operator.subtask] = list(values)


class PlainRules(dict[str, int]):
    """A broadcast state."""

    def put(self, key: str, value: int) -> None:
        self[key] = value

    def remove(self, key: str) -> None:
        self.pop(key, None)


class PlainTimers:
    """The timers of the current key."""

    def __init__(self, operator: "PlainOperator") -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        return self._operator.processing_time

    def current_watermark(self) -> int:
        watermark = self._operator.watermark
        return -(1 << 63) if watermark is None else watermark

    def register_event_time_timer(self, time: int) -> None:
        self._operator.timers[TimeDomain.EVENT_TIME].add((time, self._operator.entry))

    def register_processing_time_timer(self, time: int) -> None:
        self._operator.timers[TimeDomain.PROCESSING_TIME].add((time, self._operator.entry))

    def delete_event_time_timer(self, time: int) -> None:
        self._operator.timers[TimeDomain.EVENT_TIME].discard((time, self._operator.entry))

    def delete_processing_time_timer(self, time: int) -> None:
        self._operator.timers[TimeDomain.PROCESSING_TIME].discard((time, self._operator.entry))


class PlainOperator:
    """The operator; `epoch` is all or nothing.

    Args:
        states: Its keyed states, with their times to live.
    """

    def __init__(self, states: Mapping[str, tuple[StateDescriptor, Ttl | None]]) -> None:
        self.keyed: dict[str, PlainState] = {name: plain_state(self, *given) for name, given in states.items()}
        self._take(Content({}, {domain: set() for domain in TimeDomain}, {"notes": [[]], "union": [[]]}, {}, 0, None))
        self.sealed = self._content()
        self._parallelism = 1
        self.entry: Any = None
        self.subtask = 0
        self.timestamp: int | None = None
        self.firing: TimeDomain | None = None

    @property
    def states(self) -> dict[str, Any]:
        """Returns everything that a command may name."""
        lists = {name: PlainOperatorList(self, name) for name in ("notes", "union")}
        return {**self.keyed, **lists, "rules": self.rules}

    def timer_service(self) -> PlainTimers:
        return PlainTimers(self)

    def _content(self) -> Content:
        content = Content(self.cells, self.timers, self.lists, self.rules, self.processing_time, self.watermark)
        return _copied(content)

    def _take(self, content: Content) -> None:
        self.cells, self.timers, self.lists, rules, self.processing_time, self.watermark = _copied(content)
        self.rules = PlainRules(rules)

    def restore(self, content: Content, parallelism: int) -> None:
        """Restores a snapshot. Operator lists are divided anew if the number of subtasks has changed."""
        self._take(content)
        self.sealed = content
        self._parallelism = parallelism
        for name, parts in self.lists.items():
            if len(parts) != parallelism:
                whole = [element for part in parts for element in part]
                ends = [n * (len(whole) // parallelism) + min(n, len(whole) % parallelism) for n in range(parallelism)]
                self.lists[name] = [whole[a:b] for a, b in zip(ends, [*ends[1:], len(whole)], strict=True)]

    def epoch(self, elements: list[Any], records: list[Any], times: list[int | None]) -> list[Row]:
        """Runs one epoch: of every subtask the timers that are due, the broadcast elements, and its records in order.

        Args:
            elements: Broadcast (call, arguments).
            records: (key, namespace, call, arguments).
            times: Event times of the records.
        """
        self.sealed_lists = copy.deepcopy(self.lists)
        rules = self.rules
        found: list[Row] = []
        try:
            order = sorted(range(len(records)), key=lambda n: (times[n] is not None, times[n] or 0))
            for subtask in range(self._parallelism):
                self.subtask = subtask
                self.rules = PlainRules(rules)  # each subtask changes its own copy
                self.firing = None
                found += self._fire(TimeDomain.EVENT_TIME, self.watermark)
                found += self._fire(TimeDomain.PROCESSING_TIME, self.processing_time)
                found += [(None, obey(self, call, json.loads(arguments))) for call, arguments in elements]
                for n in order:
                    key, space, call, arguments = records[n]
                    if self._owner(key) == self.subtask:
                        self.timestamp = times[n]
                        self.entry = key if space is None else Namespaced(key, space)
                        found.append((key, obey(self, call, json.loads(arguments))))
        except Exception:
            clocks = {"processing_time": self.processing_time, "watermark": self.watermark}
            self.restore(self.sealed._replace(**clocks), self._parallelism)
            raise
        self.sealed = self._content()
        return found

    def _fire(self, domain: TimeDomain, limit: int | None) -> Iterator[Row]:
        timers = self.timers[domain]
        self.firing = domain

        def due() -> list[tuple[int, Any]]:
            own = [timer for timer in timers if self._owner(_key(timer[1])) == self.subtask]
            return [] if limit is None else sorted(
                (timer for timer in own if timer[0] <= limit), key=lambda timer: (timer[0], repr(timer[1]))
            )  # fmt: skip

        while now := due():
            for time, entry in [timer for timer in now if timer[0] == now[0][0]]:
                if (time, entry) in timers:
                    timers.remove((time, entry))
                    self.timestamp, self.entry = time, entry
                    yield _key(entry), on_timer(self, time, domain)
        self.firing = None

    def _owner(self, key: Any) -> int:
        return subtask_of(_CODEC.key_group(key), self._parallelism, MAX_PARALLELISM)


def _copied(content: Content) -> Content:
    """Returns a copy that shares nothing that changes: values are copied on their way in and out."""
    return content._replace(
        cells={
            cell: {user_key: list(stamped) for user_key, stamped in entries.items()}
            for cell, entries in content.cells.items()
            if entries
        },
        timers={domain: set(timers) for domain, timers in content.timers.items()},
        lists=copy.deepcopy(content.lists),
        rules=dict(content.rules),
    )


def _key(entry: Any) -> Any:
    return entry.key if isinstance(entry, Namespaced) else entry
