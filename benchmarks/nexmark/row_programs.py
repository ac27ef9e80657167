"""The queries by row functions."""

from collections.abc import Callable

from benchmarks.nexmark.events import AUCTION, BID, PERSON
from benchmarks.nexmark.functions import (
    Counts,
    Largest,
    LastBid,
    NewSellers,
    OfWindow,
    SellersAndItems,
    Sessions,
    Totals,
    Winners,
)
from benchmarks.nexmark.queries import CATEGORY, LAST_STATE, SLIDE_MS, WINDOW_MS
from benchmarks.nexmark.streams import Read
from state_engine.api import Time
from state_engine.api.windows import SlidingEventTimeWindows
from state_engine.spark.graph.stream import DataStream


def local_items(read: Read) -> DataStream:
    items = read(AUCTION).where(f"category = {CATEGORY}").select("seller", "id").key_by("seller")
    people = read(PERSON).where(f"state <= {LAST_STATE}").select("id", "state").key_by("id")
    columns = "seller bigint, state bigint, item bigint"
    return items.connect(people).process(SellersAndItems(), columns, uid="items")


def winners(read: Read, columns: str, *, prices_alone: bool) -> DataStream:
    both = read(AUCTION).key_by("id").connect(read(BID).key_by("auction"))
    return both.process(Winners(prices_alone=prices_alone), columns, uid="winners")


def closing_prices(read: Read) -> DataStream:
    prices = winners(read, "category bigint, price bigint", prices_alone=True)
    return prices.key_by("category").process(Totals(), "category bigint, total bigint, n bigint", uid="categories")


def hot_items(read: Read) -> DataStream:
    windows = SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_MS), Time.milliseconds(SLIDE_MS))
    counts = read(BID).select("auction").key_by("auction").window(windows)
    counted = counts.aggregate(Counts(), OfWindow(), output_type="start bigint, auction bigint, n bigint", uid="counts")
    hottest = Largest("n", WINDOW_MS - 1)
    return counted.key_by("start").process(hottest, "start bigint, auction bigint, n bigint", uid="hottest")


def highest_bids(read: Read) -> DataStream:
    bids = read(BID).select(f"t - t % {WINDOW_MS} as start", "auction", "bidder", "price", "t").key_by("start")
    columns = "start bigint, auction bigint, bidder bigint, price bigint, t bigint"
    return bids.process(Largest("price", WINDOW_MS - 1), columns, uid="highest")


def new_sellers(read: Read) -> DataStream:
    start = f"t - t % {WINDOW_MS} as start"
    people, items = read(PERSON).select("id", start), read(AUCTION).select("seller", start)
    both = people.key_by("id", "start").connect(items.key_by("seller", "start"))
    return both.process(NewSellers(), "id bigint, start bigint", uid="new")


def winning_bids(read: Read) -> DataStream:
    return winners(read, "auction bigint, bidder bigint, price bigint, t bigint", prices_alone=False)


def sessions(read: Read) -> DataStream:
    bids = read(BID).select("bidder", "t").key_by("bidder")
    return bids.process(Sessions(), "bidder bigint, start bigint, ends bigint, n bigint", uid="n")


def last_bids(read: Read) -> DataStream:
    bids = read(BID).select("bidder", "auction", "price", "t").key_by("bidder", "auction")
    return bids.process(LastBid(), "bidder bigint, auction bigint, price bigint, t bigint", uid="last")


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

__all__ = ["PROGRAMS"]
