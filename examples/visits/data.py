"""Generated clicks of a site: the same ones on every machine, in any number.

The stream has no end. It comes in parts of six hours of event time, each of which is computed from its number alone, so
a writer can go on at any part. A click arrives up to a minute after it happened, so that clicks come out of order.
"""

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

START = datetime(2026, 1, 1, tzinfo=UTC)
PART = timedelta(hours=6)
LONGEST_DELAY = timedelta(minutes=1)
VISITS_PER_PART = 300
USERS = 2_000
PAGES = ("home", "search", "list", "item", "basket", "help")

_PART_MS = PART // timedelta(milliseconds=1)
_START_MS = int(START.timestamp()) * 1_000
_DELAY_MS = LONGEST_DELAY // timedelta(milliseconds=1)
_MOST_CLICKS = 10
_LONGEST_PAUSE_MS = 20 * 60_000


class Click(NamedTuple):
    """A click. `number` is unique; times are ms since the Unix epoch, `arrived_ms` says when it came."""

    number: int
    user: str
    page: str
    at_ms: int
    arrived_ms: int

    def value(self) -> str:
        """Returns what is sent to Kafka: JSON."""
        at = datetime.fromtimestamp(self.at_ms / 1_000, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"number": self.number, "page": self.page, "at": at})


def read_part(number: int) -> list[Click]:
    """Returns the clicks that arrive in one part of six hours, in the order in which they arrive.

    Args:
        number: Number of the part; the part that begins at `START` is 1.

    Raises:
        IndexError: The number is less than 1.
    """
    if number < 1:
        raise IndexError(f"Parts of the clicks start at 1; there is no part {number}.")
    first = _START_MS + (number - 1) * _PART_MS
    begun_in = range(max(1, number - 1), number + 1)  # a visit is shorter than a part
    clicks = [click for part in begun_in for click in _begun_in(part)]
    return sorted(
        (click for click in clicks if first <= click.arrived_ms < first + _PART_MS),
        key=lambda click: (click.arrived_ms, click.number),
    )


@lru_cache(maxsize=2)
def _begun_in(part: int) -> tuple[Click, ...]:
    """Returns the clicks of all visits that begin in a part."""
    draw = random.Random(f"clicks of part {part}").random
    first = _START_MS + (part - 1) * _PART_MS
    visits = range((part - 1) * VISITS_PER_PART, part * VISITS_PER_PART)
    return tuple(click for visit in visits for click in _visit(visit, first, draw))


def _visit(visit: int, first_ms: int, draw: Callable[[], float]) -> Iterator[Click]:
    user = f"u{int(draw() ** 2 * USERS):04}"  # squared: some come more often than others
    at = first_ms + int(draw() * _PART_MS)
    for click in range(1 + int(draw() * _MOST_CLICKS)):
        page = PAGES[0] if click == 0 else PAGES[int(draw() * len(PAGES))]
        yield Click(visit * _MOST_CLICKS + click, user, page, at, at + int(draw() * _DELAY_MS))
        at += 1_000 + int(draw() ** 2 * _LONGEST_PAUSE_MS)


__all__ = ["LONGEST_DELAY", "PAGES", "PART", "START", "USERS", "VISITS_PER_PART", "Click", "read_part"]
