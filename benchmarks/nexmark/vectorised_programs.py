"""The queries by vectorised functions; two streams are merged into one."""

from collections.abc import Callable

from benchmarks.nexmark.batch_functions import (
    Counts,
    Largest,
    LastBids,
    NewSellers,
    SellersAndItems,
    Sessions,
    Totals,
    Winners,
)
from benchmarks.nexmark.events import AUCTION, BID, PERSON
from benchmarks.nexmark.queries import CATEGORY, LAST_STATE, WINDOW_MS
from benchmarks.nexmark.streams import Read
from state_engine.spark.graph.stream import DataStream

NOTHING = "cast(null as bigint)"


def local_items(read: Read) -> DataStream:
    items = read(AUCTION).where(f"category = {CATEGORY}").select("seller", f"{NOTHING} as state", "id as item")
    people = read(PERSON).where(f"state <= {LAST_STATE}").select("id as seller", "state", f"{NOTHING} as item")
    columns = "seller bigint, state bigint, item bigint"
    return items.union(people).key_by("seller").process(SellersAndItems(), columns, uid="items")


def winners(read: Read, columns: str, *, prices_alone: bool) -> DataStream:
    nothing = [f"{NOTHING} as {name}" for name in ("bidder", "price", "t", "category", "expires")]
    auctions = read(AUCTION).select("id as auction", *nothing[:3], "category", "expires")
    bids = read(BID).select("auction", "bidder", "price", "t", *nothing[3:])
    both = auctions.union(bids).key_by("auction")
    return both.process(Winners(prices_alone=prices_alone), columns, uid="winners")


def closing_prices(read: Read) -> DataStream:
    prices = winners(read, "category bigint, price bigint", prices_alone=True)
    return prices.key_by("category").process(Totals(), "category bigint, total bigint, n bigint", uid="categories")


def hot_items(read: Read) -> DataStream:
    columns = "start bigint, auction bigint, n bigint"
    counted = read(BID).select("auction").key_by("auction").process(Counts(), columns, uid="counts")
    return counted.key_by("start").process(Largest("n", ("start", "auction", "n")), columns, uid="hottest")


def highest_bids(read: Read) -> DataStream:
    names = ("start", "auction", "bidder", "price", "t")
    bids = read(BID).select(f"t - t % {WINDOW_MS} as start", *names[1:]).key_by("start")
    columns = ", ".join(f"{name} bigint" for name in names)
    return bids.process(Largest("price", names), columns, uid="highest")


def new_sellers(read: Read) -> DataStream:
    start = f"t - t % {WINDOW_MS} as start"
    people = read(PERSON).select("id", start, "1L as side")
    items = read(AUCTION).select("seller as id", start, "2L as side")
    return people.union(items).key_by("id", "start").process(NewSellers(), "id bigint, start bigint", uid="new")


def winning_bids(read: Read) -> DataStream:
    return winners(read, "auction bigint, bidder bigint, price bigint, t bigint", prices_alone=False)


def sessions(read: Read) -> DataStream:
    bids = read(BID).select("bidder", "t").key_by("bidder")
    return bids.process(Sessions(), "bidder bigint, start bigint, ends bigint, n bigint", uid="n")


def last_bids(read: Read) -> DataStream:
    bids = read(BID).select("bidder", "auction", "price", "t").key_by("bidder", "auction")
    return bids.process(LastBids(), "bidder bigint, auction bigint, price bigint, t bigint", uid="last")


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
