"""Which executor a subtask prefers: as many subtasks as possible run at once, and as few as possible move."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.spark.plan.sticky_assignment import assign

Slots = dict[str, int]

clusters = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4), min_size=1)
parallelisms = st.integers(1, 20)


def turns(found: list[str], slots: Slots) -> int:
    """Returns how many times in a row the executor that needs longest has to fill its slots."""
    return max(ceil(count / slots[executor]) for executor, count in Counter(found).items())


@given(parallelisms, clusters, clusters)
def test_no_executor_needs_more_turns_than_the_cluster(parallelism: int, earlier: Slots, slots: Slots) -> None:
    for assignment in assign(parallelism, slots), assign(parallelism, slots, assign(parallelism, earlier)):
        assert len(assignment) == parallelism
        assert set(assignment) <= set(slots)
        assert turns(assignment, slots) == ceil(parallelism / sum(slots.values()))


@given(parallelisms, clusters, st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9)))
def test_nothing_moves_without_need(parallelism: int, slots: Slots, others: Slots) -> None:
    before = assign(parallelism, slots)
    assert assign(parallelism, slots, before, others) == before


@given(parallelisms, clusters.filter(lambda slots: len(slots) > 1), st.data())
def test_only_subtasks_of_an_executor_that_is_gone_move(parallelism: int, slots: Slots, data: st.DataObject) -> None:
    before = assign(parallelism, slots)
    lost = data.draw(st.sampled_from(sorted(slots)))
    after = assign(parallelism, {name: n for name, n in slots.items() if name != lost}, before)
    assert [new for old, new in zip(before, after, strict=True) if old != lost] == [e for e in before if e != lost]


@given(parallelisms, clusters.filter(lambda slots: len(slots) > 1), st.data())
def test_subtasks_move_to_a_new_executor_only(parallelism: int, slots: Slots, data: st.DataObject) -> None:
    new = data.draw(st.sampled_from(sorted(slots)))
    before = assign(parallelism, {name: n for name, n in slots.items() if name != new})
    after = assign(parallelism, slots, before)
    assert {then for now, then in zip(before, after, strict=True) if now != then} <= {new}


@given(st.integers(1, 10), st.integers(1, 20), clusters)
def test_another_parallelism_keeps_what_it_can(fewer: int, more: int, slots: Slots) -> None:
    small = assign(fewer, slots)
    assert assign(fewer + more, slots, small)[:fewer] == small


def test_operators_with_few_subtasks_do_not_all_take_the_first_executor() -> None:
    assert assign(1, {"a": 1, "b": 1}) == ["a"]
    assert assign(1, {"a": 1, "b": 1}, others={"a": 1}) == ["b"]
    assert assign(1, {"a": 2, "b": 1}, others={"a": 1, "b": 1}) == ["a"], "it has more room"


def test_without_an_executor_there_is_no_assignment() -> None:
    with pytest.raises(ValueError, match="executor"):
        assign(1, {})
