"""Integer keys in a table: it gives the same numbers as a dict, and is used only where it pays off."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api.keys import Keys, are_integers
from state_engine.backends.integer_keys import IntegerKeys
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import KeyCodec
from state_engine.serialization.types import parse_columns

LEAST, LARGEST = -(2**63), 2**63 - 1


class Known:
    """Keys that are added part by part."""

    def __init__(self) -> None:
        self.places = IntegerKeys()
        self.keys: list[Any] = []
        self.asked: list[int] = []

    def add(self, *keys: Any) -> None:
        self.places.add(pa.array(keys, pa.int64()))
        self.keys += keys

    def look(self, *wanted: int) -> list[int]:
        numbers: list[int] = self.places.numbers_of(pa.array(wanted, pa.int64()), self._from).tolist()
        assert numbers == [self.keys.index(key) if key in self.keys else -1 for key in wanted]
        return numbers

    def _from(self, number: int) -> Iterator[Any]:
        self.asked.append(number)
        yield pa.array(self.keys[number:], pa.int64())


@pytest.mark.parametrize("start", [0, LEAST, LARGEST - 1000, -500])
@pytest.mark.parametrize("seed", range(3))
def test_a_key_is_found_where_it_was_added(start: int, seed: int) -> None:
    keys, drawn = Known(), random.Random(seed)
    remaining = [start + n for n in range(1000)]
    drawn.shuffle(remaining)
    while remaining:
        count = drawn.choice([1, 7, 300])
        keys.add(*remaining[:count])
        remaining = remaining[count:]
        if keys.places.are_close:
            keys.look(*drawn.sample(keys.keys, min(len(keys.keys), 20)), *remaining[:20])
            keys.look(start, LEAST, LEAST + 1, 0, LARGEST, LARGEST - 1)
    assert keys.places.are_close


def test_only_what_is_new_is_placed_while_keys_count_upwards() -> None:
    keys = Known()
    for start in range(0, 1000, 10):
        keys.add(*range(start, start + 10))
        keys.look(start, start + 9, start + 10)
    assert 5 < keys.asked.count(0) < 20
    assert len(keys.asked) == 100


@pytest.mark.parametrize(
    "keys",
    [[], [None, 1, 2], [0, 1_000_000], [LEAST, LARGEST], list(range(0, 500, 5))],
    ids=["none", "null", "far", "farthest", "sparse"],
)
def test_a_table_that_does_not_pay_is_not_made(keys: list[Any]) -> None:
    known = Known()
    known.add(*keys)
    assert not known.places.are_close


def test_keys_far_apart_come_close_and_the_other_way_round() -> None:
    keys = Known()
    keys.add(0, 99)
    assert not keys.places.are_close
    keys.add(*range(1, 99))
    assert keys.places.are_close
    keys.look(0, 50, 99, 100, -1)
    keys.add(10_000)
    assert not keys.places.are_close
    keys.add(*range(100, 10_000))
    keys.look(0, 99, 10_000, 5_000, 10_001)


@pytest.mark.parametrize(
    ("column", "is_so"),
    [
        (pa.array([1, 2], pa.int8()), True),
        (pa.array([1, None]), False),
        (pa.array([1, 2], pa.uint64()), False),
        (pa.array([1.0]), False),
        (pa.array([True]), False),
        (pa.array(["1"]), False),
    ],
)
def test_integers_alone_have_places(column: Any, *, is_so: bool) -> None:
    assert are_integers(column) is is_so


def test_narrower_keys_and_keys_of_which_one_is_null_are_the_same() -> None:
    codec = KeyCodec(parse_columns("k bigint"), 13)
    numbers = KeyNumbers(codec)
    assert numbers.of_each(Keys([pa.array([5, 6, 7])], codec.read)).tolist() == [0, 1, 2]
    assert numbers.of_each(Keys([pa.array([7, 8], pa.int32())], codec.read)).tolist() == [2, 3]
    assert numbers.of_each(Keys([pa.array([8, None, 5])], codec.read)).tolist() == [3, 4, 0]
    assert numbers.of_each(Keys([pa.array([6, 9])], codec.read)).tolist() == [1, 5]
    assert numbers.entries == [5, 6, 7, 8, None, 9]
    numbers.limit = 0
    assert numbers.drop_unused([np.array([1, 5])], 2) is not None
    assert numbers.of_each(Keys([pa.array([9, 6, 5])], codec.read)).tolist() == [1, 0, 2]
