"""Checks whether brokers still have the records that a position in Kafka needs (S1, before anything is written).

Pure.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from state_engine.epoch.source_changes import WITHOUT_LOST_RECORDS, position_lost
from state_engine.log.source_records import SourceFingerprint, SourcePosition


class TopicState(NamedTuple):
    """A topic as the brokers have it.

    Attributes:
        topic_id: Its id; a topic that is made anew has another one.
        earliest: By partition, the offset of the first record that is kept.
        latest: By partition, the offset after the last record.
    """

    topic_id: str
    earliest: Mapping[int, int]
    latest: Mapping[int, int]


def offsets_of(position: SourcePosition) -> dict[str, dict[int, int]]:
    """Returns the offsets of the next records by topic and partition, as Spark writes them."""
    return {
        topic: {int(number): offset for number, offset in partitions.items()}
        for topic, partitions in json.loads(position.offset).items()
    }


def check_positions(
    source: int,
    position: SourcePosition,
    recorded: SourceFingerprint,
    found: Mapping[str, TopicState | None],
    *,
    loss_allowed: bool,
    changed: bool = False,
    reads: Callable[[str], bool] = lambda topic: True,
) -> None:
    """Compares a position with the topics.

    Args:
        source: Number of the source.
        position: Its position.
        recorded: The source as it was recorded with the position.
        found: The topics of the position; None for one that does not exist.
        reads: Whether the source still reads a topic; nothing is needed of others.
        loss_allowed: Whether the source has `failOnDataLoss=false`: what is gone is then left out.
        changed: Whether the start allows that the source has changed.

    Raises:
        SourcePositionLostError: A topic is gone or was made anew, has fewer partitions, ends before the position, or
            has deleted records that are still needed.
    """
    for topic, offsets in offsets_of(position).items():
        if not reads(topic):
            continue
        state, known = found.get(topic), recorded.ids.get(topic)
        if state is not None and known is not None and known != state.topic_id and not changed:
            raise position_lost(
                source,
                f"topic {topic!r} was made anew (its id was {known}, is {state.topic_id}), so its offsets count other "
                "records",
                f"Bring the old topic back. To go on in the new one at the old offsets, start once with "
                f"allow_changed_sources=[{source}], and failOnDataLoss=false on the source if it has fewer records.",
            )
        if not loss_allowed:
            _check_records(source, topic, offsets, state)


def _check_records(source: int, topic: str, offsets: Mapping[int, int], state: TopicState | None) -> None:
    if state is None:
        raise position_lost(
            source, f"topic {topic!r} does not exist", f"Look at kafka.bootstrap.servers. {WITHOUT_LOST_RECORDS}"
        )
    if gone := sorted(offsets.keys() - state.latest.keys()):
        raise position_lost(source, f"topic {topic!r} has no partition {gone[0]} any more", WITHOUT_LOST_RECORDS)
    for number, offset in sorted(offsets.items()):
        if offset > state.latest[number]:
            what = f"ends at offset {state.latest[number]}, before the position {offset}"
            raise position_lost(source, f"partition {number} of topic {topic!r} {what}", WITHOUT_LOST_RECORDS)
        if offset < state.earliest[number]:
            what = (
                f"begins at offset {state.earliest[number]}: {state.earliest[number] - offset:,} records from {offset} "
                "on that the job has not read were deleted (retention.ms, retention.bytes)"
            )
            raise position_lost(source, f"partition {number} of topic {topic!r} {what}", WITHOUT_LOST_RECORDS)


def with_ids(source: SourceFingerprint, found: Mapping[str, TopicState | None]) -> SourceFingerprint:
    """Returns the source with the ids of its topics, which manifests record from now on."""
    ids: dict[str, str] = {topic: state.topic_id for topic, state in sorted(found.items()) if state is not None}
    return replace(source, ids=ids)


def topics_named(options: Mapping[str, str], position: SourcePosition | None) -> Sequence[str]:
    """Returns the topics of a source: those that its options name, and those of its position."""
    names = _subscribed(options)
    return list(dict.fromkeys([*names, *(offsets_of(position) if position is not None else ())]))


def is_read(options: Mapping[str, str], topic: str) -> bool:
    """Returns whether a source with these options reads a topic; names of options are in lower case."""
    if "subscribepattern" in options:
        return re.fullmatch(options["subscribepattern"], topic) is not None
    return topic in _subscribed(options)


def _subscribed(options: Mapping[str, str]) -> list[str]:
    names = [name.strip() for name in options.get("subscribe", "").split(",") if name.strip()]
    return [*names, *(json.loads(options["assign"]) if "assign" in options else ())]


__all__ = ["TopicState", "check_positions", "is_read", "offsets_of", "topics_named", "with_ids"]
