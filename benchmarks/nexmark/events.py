"""Generates Nexmark events, one per ms: of fifty events one is a person, three are auctions, and the others bids.

Proportions, hot sellers, bidders and auctions are those of Apache Beam's and Flink's generators. A record has only the
columns that some query needs, as numbers; names, cities and padding are left out.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, Longs, write_files
from benchmarks.workloads.event_time import START_MS
from state_engine.api.keys import indices

CYCLE, AUCTIONS = 50, 3
STATES, CATEGORIES, FIRST_CATEGORY = 6, 5, 10
HOT = 100
"""Every hundredth person or auction is hot until the next one of these appears."""
ACTIVE_PEOPLE, IN_FLIGHT = 1000, 100
LONGEST_MS = 2 * IN_FLIGHT * CYCLE // AUCTIONS
"""Longest time for which an auction is open. On average it is half of this, in which `IN_FLIGHT` auctions begin."""

PERSON, AUCTION, BID = "person", "auction", "bid"
COLUMNS = {
    PERSON: ("id", "state", "t"),
    AUCTION: ("id", "seller", "category", "expires", "t"),
    BID: ("auction", "bidder", "price", "t"),
}
"""The columns of each kind of event, 64-bit integers; `t` is its event time in ms, unique among all events."""


def draw(events: int) -> dict[str, pa.Table]:
    """Returns the first `events` events, by kind, in order of time; every call returns the same events."""
    random = np.random.default_rng(SEED)
    number = np.arange(events)
    cycle, place = number // CYCLE, number % CYCLE
    t = START_MS + number
    people, newest = cycle + 1, np.maximum(cycle * AUCTIONS + np.minimum(place, AUCTIONS), 1)  # numbers so far
    is_auction, is_bid = (place >= 1) & (place <= AUCTIONS), place > AUCTIONS
    auctions, bids = int(is_auction.sum()), int(is_bid.sum())
    seller = _drawn(random, people[is_auction], ACTIVE_PEOPLE, hot=0.75)
    length = random.integers(1, LONGEST_MS, size=auctions)
    category = FIRST_CATEGORY + random.integers(0, CATEGORIES, size=auctions)
    state = random.integers(0, STATES, size=int((place == 0).sum()))
    columns: dict[str, tuple[Longs, ...]] = {
        PERSON: (cycle[place == 0], state, t[place == 0]),
        AUCTION: (newest[is_auction] - 1, seller, category, t[is_auction] + length, t[is_auction]),
        BID: (
            _drawn(random, newest[is_bid], IN_FLIGHT, hot=0.5),
            _drawn(random, people[is_bid], ACTIVE_PEOPLE, hot=0.75),
            np.round(100 * 10 ** (6 * random.random(bids))).astype(np.int64),
            t[is_bid],
        ),
    }
    return {kind: pa.table(list(map(pa.array, arrays)), names=list(COLUMNS[kind])) for kind, arrays in columns.items()}


def write(folder: Path, *, epochs: int, epoch_events: int, files_per_epoch: int) -> None:
    """Writes the events by epoch, to a folder for each kind; of n files each has every n-th event of its kind."""
    drawn = draw(epochs * epoch_events)
    for kind, table in drawn.items():
        times = np.asarray(table.column("t")) - START_MS
        borders = np.searchsorted(times, np.arange(epochs + 1) * epoch_events)
        for epoch in range(epochs):
            positions = np.arange(borders[epoch], borders[epoch + 1])
            parts = [positions[part::files_per_epoch] for part in range(files_per_epoch)]
            write_files(folder / kind, epoch, [table.take(indices(part)) for part in parts])


def _drawn(random: np.random.Generator, there: Longs, newest: int, *, hot: float) -> Longs:
    """Draws ids below `there`: with probability `hot` the newest hot one, otherwise one of the `newest` newest."""
    count = len(there)
    recent = there - 1 - (random.random(count) * np.minimum(there, newest)).astype(np.int64)
    return np.where(random.random(count) < hot, (there - 1) // HOT * HOT, recent)


__all__ = ["AUCTION", "BID", "COLUMNS", "PERSON", "draw", "write"]
