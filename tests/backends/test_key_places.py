"""Integer keys in a table: the numbers that a dict would give, and none that does not pay."""

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
    """Keys as they were added, part by part."""

    def __init__(self) -> None:
        self.places = IntegerKeys()
        self.keys: list[Any] = []
        self.asked: list[int] = []

    def add(self, *keys: Any) -> None:
        self.places.add(pa.array(keys, pa.int64()))
        self.keys += keys

    def look(self, *wanted: int) -> list[int]:
        found: list[int] = self.places.numbers_of(pa.array(wanted, pa.int64()), self._from).tolist()
        assert found == [self.keys.index(key) if key in self.keys else -1 for key in wanted]
        return found

    def _from(self, number: int) -> Iterator[Any]:
        self.asked.append(number)
        yield pa.array(self.keys[number:], pa.int64())


@pytest.mark.parametrize("start", [0, LEAST, LARGEST - 1000, -500])
@pytest.mark.parametrize("seed", range(3))
def test_a_key_is_found_where_it_was_added(start: int, seed: int) -> None:
    known, drawn = Known(), random.Random(seed)
    left = [start + n for n in range(1000)]
    drawn.shuffle(left)
    while left:
        count = drawn.choice([1, 7, 300])
        known.add(*left[:count])
        left = left[count:]
        if known.places.are_close:
            known.look(*drawn.sample(known.keys, min(len(known.keys), 20)), *left[:20])
            known.look(start, LEAST, LEAST + 1, 0, LARGEST, LARGEST - 1)
    assert known.places.are_close


def test_only_what_is_new_is_placed_while_keys_count_upwards() -> None:
    known = Known()
    for start in range(0, 1000, 10):
        known.add(*range(start, start + 10))
        known.look(start, start + 9, start + 10)
    assert 5 < known.asked.count(0) < 20
    assert len(known.asked) == 100


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
    known = Known()
    known.add(0, 99)
    assert not known.places.are_close
    known.add(*range(1, 99))
    assert known.places.are_close
    known.look(0, 50, 99, 100, -1)
    known.add(10_000)
    assert not known.places.are_close
    known.add(*range(100, 10_000))
    known.look(0, 99, 10_000, 5_000, 10_001)


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
