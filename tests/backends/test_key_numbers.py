"""Numbers of keys: one for each key, whichever way it is looked up, until nothing uses it any more."""

import datetime
import decimal
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api.keys import Keys
from state_engine.backends import key_numbers
from state_engine.backends.ascending import last_of_each, positions_of
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import KeyCodec
from state_engine.serialization.types import parse_columns

M = 13
DAY, NOON = datetime.date(1969, 12, 1), datetime.datetime(1969, 12, 31, 23, 58, tzinfo=datetime.UTC)
KEYS: dict[str, list[Any]] = {
    "k bigint": [None, *range(-50, 250)],
    "k string": [None, "", *(f"key {n}" for n in range(300))],
    "k boolean": [None, True, False],
    "k tinyint": [None, *range(-100, 100)],
    "k int": list(range(-50, 250)),
    "k smallint": list(range(-32768, 32768, 251)),
    "k binary": [None, *(bytes([n]) for n in range(256))],
    "k date": [None, *(DAY + datetime.timedelta(n) for n in range(300))],
    "k timestamp": [None, *(NOON + datetime.timedelta(0, n) for n in range(300))],
    "k timestamp_ntz": [None, *(NOON.replace(tzinfo=None) + datetime.timedelta(0, n) for n in range(300))],
    "k decimal(20,2)": [None, *(decimal.Decimal(n) / 4 for n in range(300))],
    "a string, b int": [(a, b) for a in (None, "x", "y") for b in (None, *range(60))],
}


def columns_of(codec: KeyCodec, keys: list[Any]) -> Keys:
    return Keys(codec.write(keys), codec.read)


@pytest.mark.parametrize("ddl", KEYS)
@pytest.mark.parametrize("seed", range(3))
def test_a_key_has_one_number(ddl: str, seed: int) -> None:
    drawn, codec = random.Random(seed), KeyCodec(parse_columns(ddl), M)
    numbers, number_of = KeyNumbers(codec), {}
    for size in (1, 200, 3, 3, 400, 1, 100):
        keys = drawn.choices(KEYS[ddl], k=size)
        if drawn.random() < 0.5:
            given = dict(zip(keys, numbers.of(keys).tolist(), strict=True))
        else:
            columns = columns_of(codec, keys)
            given = dict(zip(columns.entries, numbers.of_each(columns).tolist(), strict=True))
        assert all(number_of.setdefault(key, number) == number for key, number in given.items())
        assert sorted(number_of.values()) == list(range(len(numbers)))
    assert [number_of[key] for key in numbers.entries] == list(range(len(numbers)))
    assert numbers.groups.tolist() == [codec.key_group(key) for key in numbers.entries]
    some = np.array(drawn.choices(range(len(numbers)), k=10))
    assert codec.read(numbers.columns(some)) == [numbers.entries[number] for number in some]
    every = np.arange(len(numbers))
    assert numbers.of_each(numbers.among(every)[0]).tolist() == every.tolist()


@pytest.mark.parametrize("ddl", KEYS)
def test_who_is_left_keeps_the_order(ddl: str) -> None:
    codec = KeyCodec(parse_columns(ddl), M)
    numbers, keys = KeyNumbers(codec), KEYS[ddl]
    numbers.of(keys)
    assert numbers.drop_unused([np.array([0])], 1) is None  # with so few, nothing is checked
    before, held = numbers.among(np.arange(len(keys)))[0], np.arange(0, len(keys), 3)
    numbers.limit = 0
    new = numbers.drop_unused([held[::2], held[1::2]], len(held))
    assert new is not None
    assert new[held].tolist() == list(range(len(held)))
    assert numbers.entries == keys[::3]
    assert numbers.groups.tolist() == [codec.key_group(key) for key in keys[::3]]
    assert numbers.of(keys[::3]).tolist() == list(range(len(held)))
    assert numbers.of_each(before).tolist() == numbers.of(keys).tolist()


def test_keys_too_large_for_one_column_stay_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's arrays of texts end at 2 GiB."""
    monkeypatch.setattr(key_numbers, "_MOST_BYTES", 20_000)
    numbers, keys = KeyNumbers(KeyCodec(parse_columns("k string"), M)), [f"key {n:100}" for n in range(2_000)]
    for start in range(0, 2_000, 100):
        numbers.of(keys[start : start + 100])
    wanted = np.array([1_500, 3, 1_500, 40])
    among, positions = numbers.among(wanted)
    assert [among.entries[at] for at in positions] == [keys[n] for n in wanted]
    assert len(among) == 3
    assert numbers.of_each(among).tolist() == [3, 40, 1_500]
    numbers.limit = 0
    kept = np.setdiff1d(np.arange(0, 2_000, 2), np.arange(400, 700))
    new = numbers.drop_unused([kept], 0)
    assert new is not None
    assert new[kept].tolist() == list(range(len(kept)))
    assert numbers.entries == [keys[n] for n in kept]
    assert numbers.of_each(columns_of(numbers.codec, keys[:8:2])).tolist() == [0, 1, 2, 3]
    assert max(sum(column.nbytes for column in part) for part in numbers._parts) <= 20_000
    numbers.limit = 0
    assert numbers.drop_unused([], 0) is not None
    assert (len(numbers), numbers.entries) == (0, [])


def test_keys_of_a_great_window_that_is_over_are_forgotten_with_it() -> None:
    numbers = KeyNumbers(KeyCodec(parse_columns("k bigint"), M))
    every = numbers.of(list(range(20_000)))
    assert numbers.drop_unused([every], len(every)) is None  # checked: all are in use
    assert numbers.limit == 40_000
    assert numbers.drop_unused([every[:15_000]], 15_000) is None  # not yet worth it
    assert numbers.drop_unused([every[:10]], 10) is not None
    assert numbers.entries == list(range(10))


@pytest.mark.parametrize("seed", range(5))
def test_sorted_numbers_among_others(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    numbers, wanted = (np.flatnonzero(drawn.random(40) < share) for share in drawn.random(2))
    places = {number: at for at, number in enumerate(numbers.tolist())}
    assert positions_of(wanted, numbers).tolist() == [places.get(number, -1) for number in wanted.tolist()]
    assert positions_of(numbers, numbers).tolist() == list(range(len(numbers)))
    several = drawn.choice(np.append(numbers, 7), 30)
    last = {number: at for at, number in enumerate(several.tolist())}
    for size in (40, 4000):
        assert last_of_each(several, size).tolist() == [last[number] for number in sorted(last)]


def test_keys_of_another_arrow_type_are_the_same() -> None:
    numbers = KeyNumbers(KeyCodec(parse_columns("k string"), M))
    assert numbers.of_each(Keys([pa.array(["a", "b"], pa.large_string())], lambda _: ["a", "b"])).tolist() == [0, 1]
    assert numbers.of(["b", "a"]).tolist() == [1, 0]


@pytest.mark.parametrize("ddl", KEYS)
def test_keys_of_numbers_are_not_looked_up_again(ddl: str) -> None:
    """For few and for many of the keys; also for a selection of them, in any order."""
    codec, keys = KeyCodec(parse_columns(ddl), M), KEYS[ddl]
    numbers = KeyNumbers(codec)
    numbers.of(keys)
    for some in (np.array([2, 0]), np.array([1]), np.arange(len(keys))[::-1]):
        selected = numbers.each(some)
        assert selected.entries == [keys[number] for number in some]
        assert numbers.of_each(selected).tolist() == some.tolist()
        taken = selected.take(np.array([0, 0, len(some) - 1]))
        assert numbers.of_each(taken)[taken.codes].tolist() == [some[0], some[0], some[-1]]
