"""The queries by declared operators. Only q5 and q7 have functions, which unpack the few rows of each window."""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.nexmark.events import AUCTION, BID, LONGEST_MS, PERSON
from benchmarks.nexmark.queries import CATEGORY, GAP_MS, LAST_STATE, SLIDE_MS, WINDOW_MS
from benchmarks.nexmark.streams import Read
from state_engine.api import Aggregate, Time
from state_engine.api.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from state_engine.spark.graph.stream import DataStream

WINDOW = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))


def local_items(read: Read) -> DataStream:
    """Joins items with their sellers. A seller's record comes before its items, and stays valid."""
    items = read(AUCTION).where(f"category = {CATEGORY}").select("seller", "id as item").key_by("seller")
    people = read(PERSON).where(f"state <= {LAST_STATE}").select("id", "state").key_by("id")
    return items.temporal_join(people, uid="items")


def bids_in_time(read: Read) -> DataStream:
    """Returns auctions with the bids that came before their end."""
    auctions = read(AUCTION).select("id", "category", "expires").key_by("id")
    near = auctions.interval_join(read(BID).key_by("auction")).between(
        Time.milliseconds(0), Time.milliseconds(LONGEST_MS)
    )
    return near.join(uid="bids").where("t <= expires")


def closing_prices(read: Read) -> DataStream:
    prices = bids_in_time(read).select("id", "category", "price").key_by("id", "category")
    closing = prices.aggregate({"final": Aggregate.max("price")}, changelog=True, uid="closing")
    totals = {"total": Aggregate.sum("final"), "n": Aggregate.count()}
    return closing.key_by("category").aggregate(totals, retract=True, uid="categories")


def hot_items(read: Read) -> DataStream:
    windows = SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_MS), Time.milliseconds(SLIDE_MS))
    counts = read(BID).select("auction").key_by("auction").window(windows)
    counted = counts.aggregate({"n": Aggregate.count()}, uid="counts")
    items = counted.select("unix_millis(window_start) as start", "n", "struct(auction, n) as item").key_by("start")
    # One window ends in each slide, so all its counts come in that slide.
    gathered = items.window(TumblingEventTimeWindows.of(Time.milliseconds(SLIDE_MS))).aggregate(
        {"most": Aggregate.max("n"), "items": Aggregate.collect("item")}, uid="most"
    )
    hottest = gathered.select("start", "filter(items, item -> item.n = most) as hottest")
    return hottest.flat_map(each, "start bigint, auction bigint, n bigint", uid="hottest")


def each(window: Any) -> Iterator[tuple[int, int, int]]:
    """Yields a row for each auction of a window."""
    for auction, n in window.hottest:
        yield window.start, auction, n


def highest_bids(read: Read) -> DataStream:
    """Collects a window's bids until it is over; a join with its highest price would also keep them, one by one."""
    bids = read(BID).select(f"t - t % {WINDOW_MS} as start", "price", "struct(auction, bidder, price, t) as bid")
    gathered = bids.key_by("start").window(WINDOW)
    most = gathered.aggregate({"most": Aggregate.max("price"), "bids": Aggregate.collect("bid")}, uid="most")
    highest = most.select("start", "filter(bids, bid -> bid.price = most) as highest")
    columns = "start bigint, auction bigint, bidder bigint, price bigint, t bigint"
    return highest.flat_map(each_bid, columns, uid="highest")


def each_bid(window: Any) -> Iterator[tuple[int, ...]]:
    """Yields a row for each bid of a window."""
    for bid in window.highest:
        yield (window.start, *bid)


def new_sellers(read: Read) -> DataStream:
    people = read(PERSON).select("id").key_by("id").window(WINDOW).aggregate({"n": Aggregate.count()}, uid="people")
    items = read(AUCTION).select("seller").key_by("seller").window(WINDOW)
    sellers = items.aggregate({"items": Aggregate.count()}, uid="sellers")
    came = people.select("id", "window_start").key_by("id", "window_start")
    sold = sellers.select("seller", "window_start").key_by("seller", "window_start")
    return came.interval_join(sold).between(Time.milliseconds(0), Time.milliseconds(0)).join(uid="new")


def winning_bids(read: Read) -> DataStream:
    bids = bids_in_time(read).select("id", "bidder", "price", "t").key_by("id")
    return bids.top_n(1, by="price", uid="winners")


def sessions(read: Read) -> DataStream:
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))
    return read(BID).select("bidder").key_by("bidder").window(windows).aggregate({"n": Aggregate.count()}, uid="n")


def last_bids(read: Read) -> DataStream:
    return read(BID).select("bidder", "auction", "price", "t").key_by("bidder", "auction").latest(by="t", uid="last")


PROGRAMS: dict[str, Callable[[Read], DataStream]] = {
    "q3": local_items,
    "q4": closing_prices,
    "q5": hot_items,
    "q7": highest_bids,
    "q8": new_sellers,
    "q9": winning_bids,
    "q11": sessions,
    "q18": last_bids,
}
"""The programs by Nexmark's numbers."""

RESULTS: dict[str, tuple[str, ...]] = {
    "q3": ("seller", "state", "item"),
    "q4": ("category", "total", "n"),
    "q9": ("id", "bidder", "price", "t"),
}
"""The columns of the result, if the rows have other columns or another order."""

__all__ = ["PROGRAMS", "RESULTS"]
