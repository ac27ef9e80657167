"""Timers by time, in a dict: for each time the entries that have a timer then, nearly always one entry."""

from typing import Any

from state_engine.backends.stores.dicts import MISSING


class Tie(dict[Any, None]):
    """Several entries with a timer at one time, as they came. A single entry, as most times have, is stored itself."""

    __slots__ = ()


Times = dict[int, Any]
"""For each time, an entry or a `Tie`."""


def put(times: Times, time: int, entry: Any) -> bool:
    """Adds an entry; False if it exists."""
    existing = times.get(time, MISSING)
    if existing is MISSING:
        times[time] = entry
        return True
    if type(existing) is Tie:
        if entry in existing:
            return False
        existing[entry] = None
        return True
    if existing == entry:
        return False
    times[time] = Tie.fromkeys((existing, entry))
    return True


def take(times: Times, time: int, entry: Any) -> bool:
    """Removes an entry; False if it does not exist."""
    existing = times.get(time, MISSING)
    if type(existing) is Tie:
        if entry not in existing:
            return False
        if len(existing) > 1:
            del existing[entry]
            return True
    elif existing is MISSING or existing != entry:
        return False
    del times[time]
    return True


def put_all(times: Times, time: int, entries: list[Any]) -> list[Any]:
    """Adds entries, each given once; returns those that did not exist."""
    existing = times.get(time, MISSING)
    if existing is MISSING and len(entries) > 1:
        times[time] = Tie.fromkeys(entries)
        return entries
    if type(existing) is Tie:
        new = [entry for entry in entries if entry not in existing]
        existing.update(dict.fromkeys(new))
        return new
    return [entry for entry in entries if put(times, time, entry)]


def take_all(times: Times, time: int, entries: list[Any]) -> list[Any]:
    """Removes entries, each given once; returns those that did not exist."""
    existing = times.get(time, MISSING)
    if existing is MISSING:
        return entries
    if type(existing) is not Tie:
        return [entry for entry in entries if not take(times, time, entry)]
    unknown = [entry for entry in entries if entry not in existing]
    for entry in entries:
        existing.pop(entry, None)
    if not existing:
        del times[time]
    return unknown


def listed(there: Any) -> list[Any]:
    """Returns the entries of one time as a list, given as in `Times`, or `MISSING` for none."""
    if there is MISSING:
        return []
    return list(there) if type(there) is Tie else [there]


def without(entries: list[Any], there: Any) -> list[Any]:
    """Returns the entries that are not among those of one time (`there`)."""
    if there is MISSING:
        return entries
    if type(there) is Tie:
        return [entry for entry in entries if entry not in there]
    return [entry for entry in entries if entry != there]


def pairs(times: Times) -> tuple[list[Any], list[int]]:
    """Returns all entries, and the time of each."""
    if Tie not in set(map(type, times.values())):
        return list(times.values()), list(times)
    entries: list[Any] = []
    of_each: list[int] = []
    for time, held in times.items():
        of_time = listed(held)
        entries.extend(of_time)
        of_each.extend([time] * len(of_time))
    return entries, of_each


__all__ = ["Tie", "Times", "listed", "pairs", "put", "put_all", "take", "take_all", "without"]
