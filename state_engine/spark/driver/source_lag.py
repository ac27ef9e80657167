"""How far the sources of a running job are behind, as Spark's last progress tells it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class SourceLag(NamedTuple):
    """A source.

    Attributes:
        name: Its name.
        records: How many records the source had beyond the job's position when the last batch was planned; None where
            Spark does not tell.
    """

    name: str
    records: int | None


def source_lags(
    names: Sequence[str], limited: Sequence[bool], progress: Sequence[Mapping[str, Any]]
) -> tuple[SourceLag, ...]:
    """Returns the lag of each source.

    Args:
        names: Of the sources, in Spark's order.
        limited: Which of them have a limit for a batch (`maxOffsetsPerTrigger`). Without one a batch takes all that
            there is, so that nothing is ever left behind it, however long the batch takes.
        progress: The entry `sources` of Spark's last progress; empty before the first one.
    """
    told = {number: _behind(one) for number, one in enumerate(progress) if limited[number]}
    return tuple(SourceLag(name, told.get(number)) for number, name in enumerate(names))


def _behind(source: Mapping[str, Any]) -> int | None:
    """Returns the records between two offsets of a source with partitions, such as Kafka's; None for others."""
    end, latest = _partitions(source.get("endOffset")), _partitions(source.get("latestOffset"))
    if latest is None:
        return None
    return sum(max(0, offset - (end or {}).get(partition, 0)) for partition, offset in latest.items())


def _partitions(offset: Any) -> dict[tuple[str, str], int] | None:
    """Returns offsets by topic and partition; None if it is another kind of offset."""
    try:
        topics = json.loads(offset) if isinstance(offset, str) else offset
        found = {(topic, number): at for topic, partitions in topics.items() for number, at in partitions.items()}
    except (AttributeError, TypeError, ValueError):
        return None
    return found if all(isinstance(at, int) for at in found.values()) else None


__all__ = ["SourceLag", "source_lags"]
