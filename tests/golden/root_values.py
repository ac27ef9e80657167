"""What the state of `root_job.py` is, from its input alone: plain loops, without the engine.

Some content depends on where epochs were cut, on which results must not: timers, and what an interval join still keeps.
For these `bounds` has what must be there at least, and at most. `passing` has entries that may be gone.
"""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from datasketches import hll_sketch, kll_doubles_sketch
from root_job import NAME, SECOND, YEAR_2100, Event, events_of, rules_of, values_of

Content = dict[Any, Any]
"""The value by (key, namespace, user key), without those that are null; of a list all its elements."""

MOMENTS = {"native": 2, "canonical": 4, "latest": 5}
"""How many files had been read at each savepoint, and in the end."""

WINDOW = 16 * SECOND
SKETCHES = ("approx_count_distinct_n", "approx_quantile_x")


class Bounds(NamedTuple):
    """Places of entries: those that must exist, and those that may."""

    least: set[Any]
    most: set[Any]


def content_of(rows: Iterable[dict[str, Any]], shape: str) -> Content:
    """Returns the rows of a state as a dictionary; rows of structs become tuples, since they are keys."""
    content: Content = {}
    for row in rows:
        key = tuple(plain(row[column]) for column in row if column not in _NO_KEY)
        if not key and "user_key" not in row:
            key = (row["key_group"],)  # raw state, and lists of an operator, by subtask
        place = _place(*key, row["namespace"], plain(row.get("user_key")))
        if shape == "list":
            content.setdefault(place, []).append(row["value"])
        else:
            assert place not in content, f"two rows of {place}"
            content[place] = row["value"]
    return content


_NO_KEY = {"key_group", "namespace", "user_key", "value", "position", "seq", "last_access"}


def plain(value: Any) -> Any:
    return tuple(map(plain, value.values())) if isinstance(value, dict) else value


def _place(*parts: Any) -> tuple[Any, ...]:
    return tuple(part for part in parts if part is not None) or (None,)


class Truth:
    """The state after some files.

    Args:
        files: How many were read.
    """

    def __init__(self, files: int) -> None:
        self.files = files
        self.events = [one for file in range(files) for one in events_of(file)]
        self.by_k: dict[Any, list[Event]] = {}
        self.by_v: dict[int, list[Event]] = {}
        for one in self.events:
            self.by_k.setdefault(one.k, []).append(one)
            self.by_v.setdefault(one.v, []).append(one)
        self.now = self.events[-1].at

    def contents(self) -> dict[tuple[str, str], Content]:
        """Returns the content of each state that follows from the input alone, by uid and name."""
        return {
            **{("kinds", name): content for name, content in self._kinds().items()},
            **{("totals", name): content for name, content in self._totals().items()},
            **self._of_others(),
            **self._sessions(),
        }

    def bounds(self) -> dict[tuple[str, str], Bounds]:
        """Returns the places of timers and of records that wait for a partner."""
        every = {(one.k, one.at) for one in self.events}
        due = {_place(k, at + 5 * SECOND) for k, at in every}
        return {
            ("kinds", "_event_time_timers"): Bounds({p for p in due if p[-1] > self.now}, due),
            ("near", "_event_time_timers"): Bounds(
                set(),
                {_place(k, at + more) for k, at in every if k is not None for more in range(0, 9 * SECOND, SECOND)},
            ),
        }

    def _by_key(self, value: Callable[[list[Event]], Any]) -> Content:
        return {_place(k): value(events) for k, events in self.by_k.items()}

    def _kinds(self) -> dict[str, Content]:
        last = self._by_key(lambda events: events[-1].n)
        pairs: Content = {}
        for one in self.events:
            pairs[_place(one.k, (one.v, one.n % 2 == 1))] = [one.n, -one.n]
            pairs.pop(_place(one.k, (one.v - 1, one.n % 2 == 1)), None)
        return {
            "times": self._by_key(len),
            "all_types": self._by_key(lambda events: _stored(values_of(events[-1].n))),
            "price": self._by_key(lambda events: events[-1].price),
            "moment": self._by_key(lambda events: values_of(events[-1].n)["instant"]),
            "money": {k: {"codec_version": 1, "value": {"cents": n, "currency": "EUR"}} for k, n in last.items()},
            "recent": self._by_key(lambda events: [one.n for one in events[-2:]]),
            "texts": self._by_key(lambda events: [f"№ {one.n}" for one in events]),
            "by_v": {_place(one.k, one.v): one.n for one in self.events},
            "by_pair": pairs,
            "highest": self._by_key(lambda events: events[-1].x),
            "mean": self._by_key(_sum_and_count),
            **dict.fromkeys(("lasting", "by_event"), last),
            "lasting_list": self._by_key(lambda events: [one.n for one in events]),
            "lasting_map": {_place(one.k, one.v): f"№ {one.n}" for one in self.events},
            "_processing_time_timers": {
                _place(k, YEAR_2100 + one.n): True for k, events in self.by_k.items() for one in events[-2:]
            },
        }

    def _totals(self) -> dict[str, Content]:
        groups: dict[Any, list[Event]] = {}
        for one in self.events:
            groups.setdefault(_place(one.k, one.v), []).append(one)

        def each(value: Callable[[list[Event]], Any]) -> Content:
            return {place: value(events) for place, events in groups.items()}

        def mean(events: list[Event]) -> float:
            return sum(one.n for one in events) / len(events)

        counts = each(len)
        return {
            "count": counts,
            "sum_price": each(lambda events: sum(one.price for one in events)),
            "avg_x.sum": each(lambda events: sum(one.x for one in events)),
            "avg_x.count": counts,
            "min_n": each(lambda events: events[0].n),
            "max_x": each(lambda events: events[-1].x),
            "stddev_n.count": counts,
            "stddev_n.mean": each(mean),
            "stddev_n.m2": each(lambda events: sum((one.n - mean(events)) ** 2 for one in events)),
            "first_n": each(lambda events: events[0].n),
            "last_n": each(lambda events: events[-1].n),
            "collect_n": each(lambda events: [one.n for one in events]),
            "approx_count_distinct_n": counts,
            "approx_quantile_x": each(lambda events: events[(len(events) - 1) // 2].x),
        }

    def _of_others(self) -> dict[tuple[str, str], Content]:
        rules: dict[str, int] = {}
        for file in range(self.files):
            for _, name, limit in rules_of(file):
                rules.pop(name, None)
                if limit >= 0:
                    rules[name] = limit
        homes = [events[-1] for events in self.by_k.values()]
        prices = {v: [home.price for home in homes if home.v == v] for v in {home.v for home in homes}}
        return {
            ("ruled", "rules"): {_place(name): limit for name, limit in rules.items()},
            ("ruled", "seen"): {_place(v): len(events) for v, events in self.by_v.items()},
            ("homes", "latest"): self._by_key(lambda events: events[-1]._asdict()),
            ("leaders", "top"): self._by_key(lambda events: [one._asdict() for one in events[:-3:-1]]),
            ("once", "seen"): {_place(v): True for v in self.by_v},
            ("people", "count"): {_place(v): len(found) for v, found in prices.items()},
            ("people", "max_price.max"): {_place(v): max(found) for v, found in prices.items()},
            ("people", "max_price.counts"): {_place(v, price): 1 for v, found in prices.items() for price in found},
        }

    def _sessions(self) -> dict[tuple[str, str], Content]:
        begun = {k: f"{events[0].at}/{events[0].at + 6 * SECOND}" for k, events in self.by_k.items()}
        whole = {k: f"{events[0].at}/{events[-1].at + 6 * SECOND}" for k, events in self.by_k.items()}
        return {
            ("sessions", "window-contents"): {
                _place(k, begun[k]): _sum_and_count(events) for k, events in self.by_k.items()
            },
            ("sessions", "merging-window-set"): {_place(k): [(whole[k], begun[k])] for k in self.by_k},
            ("sessions", "_event_time_timers"): {
                _place(k, whole[k], events[-1].at + 6 * SECOND - 1): True for k, events in self.by_k.items()
            },
        }

    def passing(self) -> dict[tuple[str, str], Content]:
        """Returns entries of which those that are over may be gone: of windows, and of a value with a short life."""
        inside: dict[tuple[Any, int], list[Event]] = {}
        for one in self.events:
            inside.setdefault((one.k, one.at // WINDOW * WINDOW), []).append(one)
        named = {(k, f"{start}/{start + WINDOW}", start + WINDOW): events for (k, start), events in inside.items()}
        return {
            ("kinds", "brief"): self._by_key(lambda events: events[-1].n),
            ("tumbling", "count"): {_place(k, name): len(events) for (k, name, _), events in named.items()},
            ("tumbling", "sum_price"): {
                _place(k, name): sum(one.price for one in events) for (k, name, _), events in named.items()
            },
            ("tumbling", "_event_time_timers"): {_place(k, name, end - 1): True for k, name, end in named},
        }

    def is_open(self, place: tuple[Any, ...]) -> bool:
        """Returns whether a place is of a window that is not over."""
        names = [part for part in place if isinstance(part, str) and "/" in part]
        return any(int(name.partition("/")[2]) > self.now for name in names)

    # Output -------------------------------------------------------------------------------------------------------

    def records(self) -> list[tuple[Any, ...]]:
        """Returns the rows that `kinds` gives of its records; `brief` lives until the end of its epoch."""
        rows, times, last = [], {}, {}
        for one in self.events:
            times[one.k] = times.get(one.k, 0) + 1
            file, before = one.n // 10, last.get(one.k)
            rows.append(
                (one.n, one.k, "record", times[one.k], before if before is not None and before // 10 == file else None)
            )
            last[one.k] = one.n
        return rows

    def pairs(self) -> list[tuple[int, int]]:
        """Returns the pairs that the interval join makes: records of one key that are at most four seconds apart."""
        return [
            (one.n, other.n)
            for one in self.events
            for other in self.events
            if one.k == other.k and one.k is not None and abs(one.at - other.at) <= 4 * SECOND
        ]


def check_contents(
    found: dict[tuple[str, str], Content], truth: Truth, without: Iterable[tuple[str, str]] = ()
) -> None:
    """Compares states with the truth."""
    for state, content in truth.contents().items():
        if state not in without:
            assert found[state] == content, state
    for state, content in truth.passing().items():
        assert found[state] == {place: content[place] for place in found[state]}, state
        assert {place for place in content if truth.is_open(place)} <= found[state].keys(), state
    for state, (least, most) in truth.bounds().items():
        assert least <= set(found[state]) <= most, state


def _sum_and_count(events: list[Event]) -> dict[str, int]:
    return {"total": sum(one.n for one in events), "count": len(events)}


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Returns values as Arrow shows them: maps as pairs, decimals with all places."""
    return {**values, "map": list(values["map"].items()), "integer": Decimal(values["integer"])}


BOB = {
    "boolean": False,
    "tiny": -79,
    "small": -32719,
    "int": -2147483599,
    "long": -9223372036854775759,
    "float": 12.25,
    "double": 16.333333333333332,
    "integer": Decimal("1000000000000000000000000000049"),
    "decimal": Decimal("3.0625"),
    "text": "№ 49",
    "bytes": b"\x00\xff1",
    "date": datetime(2024, 4, 18).date(),
    "local": datetime(2024, 4, 18, 12, 30, 15, 123456),
    "array": [49, None, -49],
    "struct": {"a": "a49", "b": [24.5]},
    "map": [("one", 49), ("two", 98)],
    "null": None,
}
"""A value of each type that the root holds in the end, written out: that of the last record, whose key is `bob`."""


def estimates(state: str, sketches: Content) -> Content:
    """Returns what the sketches of a state estimate: so few values exactly."""
    if state == "approx_count_distinct_n":
        return {place: round(hll_sketch.deserialize(sketch).get_estimate()) for place, sketch in sketches.items()}
    return {place: kll_doubles_sketch.deserialize(sketch).get_quantile(0.5, True) for place, sketch in sketches.items()}


def raw_counts(values: Iterable[bytes]) -> dict[str, int]:
    """Returns what the raw keyed state of all key groups holds, by key as JSON."""
    merged: dict[str, int] = {}
    for value in values:
        merged |= json.loads(value)
    return merged


__all__ = [
    "BOB",
    "MOMENTS",
    "NAME",
    "SKETCHES",
    "Bounds",
    "Content",
    "Truth",
    "check_contents",
    "content_of",
    "estimates",
    "raw_counts",
]
