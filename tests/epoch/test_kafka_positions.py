"""What becomes of a position in Kafka when its topic has changed."""

import json

import pytest

from state_engine.epoch.kafka_positions import TopicState, check_positions, is_read, topics_named, with_ids
from state_engine.errors import SourcePositionLostError
from state_engine.log.source_records import SourceFingerprint, SourcePosition

POSITION = SourcePosition(offset=json.dumps({"in": {"0": 5, "1": 7}}))
KAFKA = SourceFingerprint(kind="kafka", path="", options={"subscribe": "in"})
RECORDED = with_ids(KAFKA, {"in": TopicState("first", {}, {}), "gone": None})


def state(topic_id: str = "first", earliest: tuple[int, ...] = (0, 0), latest: tuple[int, ...] = (9, 9)) -> TopicState:
    return TopicState(topic_id, dict(enumerate(earliest)), dict(enumerate(latest)))


def check(found: TopicState | None, recorded: SourceFingerprint = RECORDED, *, loss_allowed: bool = False) -> None:
    check_positions(3, POSITION, recorded, {"in": found}, loss_allowed=loss_allowed)


@pytest.mark.parametrize(
    "found",
    [state(), state(earliest=(5, 7)), state(latest=(5, 7)), state(earliest=(0, 0, 0), latest=(9, 9, 4))],
    ids=["inside", "at the beginning", "at the end", "more partitions"],
)
def test_a_topic_that_has_what_is_needed(found: TopicState) -> None:
    check(found)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "Source 3: topic 'in' does not exist"),
        (state("second"), r"topic 'in' was made anew \(its id was first, is second\)"),
        (state(earliest=(0,), latest=(9,)), "topic 'in' has no partition 1 any more"),
        (state(latest=(4, 9)), "partition 0 of topic 'in' ends at offset 4, before the position 5"),
        (state(earliest=(0, 8)), "partition 1 of topic 'in' begins at offset 8: 1 records from 7 on"),
    ],
    ids=["gone", "made anew", "fewer partitions", "shorter", "deleted by retention"],
)
def test_a_topic_that_has_lost_something_is_named(found: TopicState | None, said: str) -> None:
    with pytest.raises(SourcePositionLostError, match=said) as raised:
        check(found)
    assert "begin a job with another name" in raised.value.action


def test_a_topic_that_the_source_no_longer_reads_may_be_gone() -> None:
    check_positions(0, POSITION, RECORDED, {"in": None}, loss_allowed=False, reads=lambda topic: False)


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"subscribe": "a, in"}, True),
        ({"subscribe": "a"}, False),
        ({"assign": '{"in":[0]}'}, True),
        ({"assign": '{"a":[0]}'}, False),
        ({"subscribepattern": "i."}, True),
        ({"subscribepattern": "i"}, False),
    ],
)
def test_which_topics_are_read(options: dict[str, str], read: bool) -> None:
    assert is_read(options, "in") is read


@pytest.mark.parametrize(
    "found", [None, state(earliest=(0,), latest=(9,)), state(latest=(4, 9)), state(earliest=(0, 8))]
)
def test_what_is_gone_may_be_given_up(found: TopicState | None) -> None:
    check(found, loss_allowed=True)


def test_a_new_topic_needs_a_permission_of_its_own() -> None:
    with pytest.raises(SourcePositionLostError, match="made anew") as raised:
        check(state("second"), loss_allowed=True)
    assert "allow_changed_sources=[3]" in raised.value.action
    check_positions(3, POSITION, RECORDED, {"in": state("second")}, loss_allowed=False, changed=True)


def test_positions_of_older_releases_have_no_ids() -> None:
    check(state("second"), KAFKA)
    assert RECORDED.ids == {"in": "first"}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"subscribe": "a, b,"}, ["a", "b", "in"]),
        ({"assign": '{"a":[0,1]}'}, ["a", "in"]),
        ({"subscribepattern": "i.*"}, ["in"]),
    ],
)
def test_which_topics_are_asked_for(options: dict[str, str], names: list[str]) -> None:
    assert list(topics_named(options, POSITION)) == names
    assert list(topics_named(options, None)) == names[:-1]
