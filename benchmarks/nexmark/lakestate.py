"""Lakestate's side: the queries by verbs where there are some, by functions where not."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.engines.epochs import EpochEnds
from benchmarks.engines.lakestate import state_backend
from benchmarks.engines.spark import MEMORY
from benchmarks.model import EMITTED, Case, Outcome
from benchmarks.nexmark.events import AUCTION, BID, COLUMNS, PERSON
from benchmarks.nexmark.functions import Largest, NewSellers, SellersAndItems, Winners
from benchmarks.nexmark.queries import CATEGORY, GAP_MS, LAST_STATE, QUERIES, SLIDE_MS, WINDOW_MS, query_of
from benchmarks.nexmark.rows import final, sums
from state_engine.api import Aggregate, Time, WatermarkStrategy
from state_engine.api.windows import EventTimeSessionWindows, SlidingEventTimeWindows
from state_engine.spark import EpochId, ForeachEpochSink, StreamJob, local_session
from state_engine.spark.stream import DataStream

Read = Callable[[str], DataStream]
"""Returns the stream of a kind of events."""


def run(case: Case) -> Outcome:
    """Runs one case to the end of its input."""
    spark = local_session(
        "benchmark-nexmark",
        str(case.parallelism),
        shuffle_partitions=case.parallelism,
        memory=MEMORY,
        extra={"spark.local.dir": str(Path(case.work) / "local")},
    )
    ends = EpochEnds()
    spark.streams.addListener(ends)
    given = GivenRows()
    job(spark, case, given).start(spark, available_now=True).await_termination()
    query = QUERIES[query_of(case.workload)]
    # Behind the last records come epochs that fire what is left: they are the end of the input, and no part of it.
    outcome = Outcome(ends.wait(case.epochs, more=True), {EMITTED: sums(final(given.rows, query.key))})
    spark.stop()
    return outcome


def job(spark: SparkSession, case: Case, given: "GivenRows") -> StreamJob:
    """Returns the job of a case's query; its rows go to a sink in the driver."""
    made = StreamJob(
        "nexmark",
        root=str(Path(case.work) / "root"),
        parallelism=case.parallelism,
        max_parallelism=128,
        state_backend=state_backend(case),
    )

    def read(kind: str) -> DataStream:
        schema = ", ".join(f"{name} bigint" for name in COLUMNS[kind])
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", case.files_per_epoch)
        records = reader.parquet(str(Path(case.inputs) / kind))
        in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
        return made.from_stream(records, name=kind, bounded=True).assign_timestamps_and_watermarks(in_order)

    PROGRAMS[query_of(case.workload)](read).sink_to(ForeachEpochSink(given), uid="out")
    return made


class GivenRows:
    """The function of a sink: keeps the rows. An epoch that is given a second time counts once."""

    def __init__(self) -> None:
        self._epochs: dict[EpochId, pa.Table] = {}

    def __call__(self, epoch: EpochId, rows: pa.Table) -> None:
        self._epochs[epoch] = rows

    @property
    def rows(self) -> pa.Table:
        """All rows, in the order of their epochs."""
        return pa.concat_tables(self._epochs.values())


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
    totals = {"total": Aggregate.sum("price"), "n": Aggregate.count()}
    return prices.key_by("category").aggregate(totals, uid="categories")


def hot_items(read: Read) -> DataStream:
    windows = SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_MS), Time.milliseconds(SLIDE_MS))
    counts = read(BID).select("auction").key_by("auction").window(windows)
    counted = counts.aggregate({"n": Aggregate.count()}, uid="counts")
    by_window = counted.select("unix_millis(window_start) as start", "auction", "n").key_by("start")
    return by_window.process(Largest("n", WINDOW_MS - 1), "start bigint, auction bigint, n bigint", uid="hottest")


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
"""By Nexmark's numbers."""

__all__ = ["PROGRAMS", "GivenRows", "job", "run"]
