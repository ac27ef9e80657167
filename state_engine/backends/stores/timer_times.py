"""Timers by time, in a dict: at each time the entries that have a timer then, nearly always one."""

from typing import Any

from state_engine.backends.stores.dicts import MISSING


class Tie(dict[Any, None]):
    """Several entries with a timer at one time, as they came. Most times have one entry, which stands there itself."""

    __slots__ = ()


Times = dict[int, Any]
"""Times, and what stands there: an entry or a `Tie`."""


def put(times: Times, time: int, entry: Any) -> bool:
    """Adds an entry; False if it is there."""
    there = times.get(time, MISSING)
    if there is MISSING:
        times[time] = entry
        return True
    if type(there) is Tie:
        if entry in there:
            return False
        there[entry] = None
        return True
    if there == entry:
        return False
    times[time] = Tie.fromkeys((there, entry))
    return True


def take(times: Times, time: int, entry: Any) -> bool:
    """Removes an entry; False if it is not there."""
    there = times.get(time, MISSING)
    if type(there) is Tie:
        if entry not in there:
            return False
        if len(there) > 1:
            del there[entry]
            return True
    elif there is MISSING or there != entry:
        return False
    del times[time]
    return True


def put_all(times: Times, time: int, entries: list[Any]) -> list[Any]:
    """Adds entries, each given once; returns those that were not there."""
    there = times.get(time, MISSING)
    if there is MISSING and len(entries) > 1:
        times[time] = Tie.fromkeys(entries)
        return entries
    if type(there) is Tie:
        new = [entry for entry in entries if entry not in there]
        there.update(dict.fromkeys(new))
        return new
    return [entry for entry in entries if put(times, time, entry)]


def take_all(times: Times, time: int, entries: list[Any]) -> list[Any]:
    """Removes entries, each given once; returns those that were not there."""
    there = times.get(time, MISSING)
    if there is MISSING:
        return entries
    if type(there) is not Tie:
        return [entry for entry in entries if not take(times, time, entry)]
    strange = [entry for entry in entries if entry not in there]
    for entry in entries:
        there.pop(entry, None)
    if not there:
        del times[time]
    return strange


def listed(there: Any) -> list[Any]:
    """Returns the entries of what stands at a time, if anything does."""
    if there is MISSING:
        return []
    return list(there) if type(there) is Tie else [there]


def without(entries: list[Any], there: Any) -> list[Any]:
    """Returns those entries that do not stand at a time."""
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
    for time, there in times.items():
        own = listed(there)
        entries.extend(own)
        of_each.extend([time] * len(own))
    return entries, of_each


__all__ = ["Tie", "Times", "listed", "pairs", "put", "put_all", "take", "take_all", "without"]
