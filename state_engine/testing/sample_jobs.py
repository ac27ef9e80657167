"""A small job with a value, a list and a map state, and random changes for it."""

import random
from collections.abc import Sequence

from state_engine.testing.changes import Change, StateName, append, clear, delete, put, reset_group, state
from state_engine.testing.jobs import JobBuilder

COUNT = state("aircraft", "count", "tailnum string", "bigint")
LEGS = state("aircraft", "legs", "tailnum string", "struct<origin:string,minutes:int>", shape="list")
SEEN = state("carrier", "seen", "carrier string, year int", "double", shape="map", user_key="string")
SCHEMAS = (COUNT, LEGS, SEEN)

_KEYS = [None, *(f"N{number}" for number in range(12))]


def sample_job(root: str, job: str = "flights") -> JobBuilder:
    """Returns a new job of two operators and three states; 2 subtasks, 13 key groups."""
    return JobBuilder(root, job, SCHEMAS)


def random_changes(rng: random.Random, count: int = 12) -> dict[StateName, Sequence[Change]]:
    """Returns changes of all states: null keys, null values, deletes, clears, and sometimes a reset key group."""
    counts = [_value(rng) for _ in range(count)]
    legs = [_list(rng) for _ in range(count)]
    seen = [_map(rng) for _ in range(count)]
    if rng.random() < 0.3:  # all states of an operator are reset together
        group = reset_group(rng.randrange(13))
        counts.insert(count // 2, group)
        legs.insert(count // 2, group)
    return {("aircraft", "count"): counts, ("aircraft", "legs"): legs, ("carrier", "seen"): seen}


def _value(rng: random.Random) -> Change:
    key = rng.choice(_KEYS)
    return rng.choice([put(key, rng.randrange(9)), put(key, None), delete(key)])


def _list(rng: random.Random) -> Change:
    key, leg = rng.choice(_KEYS), {"origin": rng.choice(["JFK", None]), "minutes": rng.randrange(300)}
    return rng.choice([append(key, leg), append(key, leg), append(key, None), clear(key)])


def _map(rng: random.Random) -> Change:
    key, user_key = (rng.choice(["UA", None]), rng.choice([2013, None])), rng.choice([None, "a", "b"])
    return rng.choice(
        [put(key, rng.choice([0.5, None]), user_key=user_key), delete(key, user_key=user_key), clear(key)]
    )


__all__ = ["COUNT", "LEGS", "SCHEMAS", "SEEN", "random_changes", "sample_job"]
