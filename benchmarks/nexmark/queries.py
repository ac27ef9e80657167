"""The queries of Nexmark that need state. Their SQL is in `sql/`; the SQL for DuckDB gives the expected results.

Rows have only 64-bit integers; bounds of windows are ms since 1970. The final results of a query are compared. For an
average these are its sum and count, since engines round averages differently.
"""

from pathlib import Path
from typing import NamedTuple

from benchmarks.model import Engine
from benchmarks.nexmark.events import AUCTION, BID, PERSON

SQL = Path(__file__).parent / "sql"
WINDOW_MS, SLIDE_MS, GAP_MS = 10_000, 2_000, 10_000
CATEGORY, LAST_STATE = 10, 2
"""The same values as in the SQL."""


class Query(NamedTuple):
    """One query.

    Attributes:
        about: The question, and the operations that it needs.
        reads: The kinds of events that it reads.
        key: Number of first columns of the result that are its key: a later row replaces an earlier one. 0 if all rows
            count.
        without: The forms, as `engine/form`, in which the query is not written.
    """

    about: str
    reads: tuple[str, ...]
    key: int = 0
    without: tuple[str, ...] = ()


QUERIES = {
    "q3": Query("Who sells in a category, in some states? A join without end.", (PERSON, AUCTION)),
    "q4": Query(
        "What do auctions end at, by category? Join, extreme, and sums of these.", (AUCTION, BID), 1, ("spark/sql",)
    ),
    "q5": Query("Which auctions had the most bids in ten seconds? Sliding windows, and the largest of each.", (BID,)),
    "q7": Query("Which bids were the highest of ten seconds? An extreme of all records.", (BID,)),
    "q8": Query("Who came and sold within the same ten seconds? A join within windows.", (PERSON, AUCTION)),
    "q9": Query("Which bid won each auction? A join, and the first of its rows.", (AUCTION, BID), 1),
    "q11": Query("How many bids has a bidder made without a pause of ten seconds? Sessions.", (BID,)),
    "q18": Query("What did a bidder bid last at an auction? The newest record of a key.", (BID,), 2),
}
"""The queries by Nexmark's numbers."""


def runs(query: str, engine: Engine) -> bool:
    """Returns whether a query is written for an engine's form."""
    return f"{engine.engine}/{form_of(engine)}" not in QUERIES[query].without


def form_of(engine: Engine) -> str:
    """Returns the form of the API in which an engine's queries are written, without the backend."""
    return engine.form.removesuffix("/rocksdb")


def query_of(workload: str) -> str:
    """Returns the name of a workload's query."""
    return workload.rpartition("-")[2]


def sql_of(workload: str, dialect: str) -> str:
    """Returns the SQL of a workload's query, over a view for each kind of event.

    Args:
        workload: A name that ends with the name of a query.
        dialect: `duckdb`; `flink`, with views that also have a `rowtime`; `spark`, with views that call this `at`.
    """
    in_dialect = SQL / f"{query_of(workload)}.{dialect}.sql"
    return (in_dialect if in_dialect.exists() else SQL / f"{query_of(workload)}.sql").read_text()


__all__ = [
    "CATEGORY",
    "GAP_MS",
    "LAST_STATE",
    "QUERIES",
    "SLIDE_MS",
    "WINDOW_MS",
    "Query",
    "form_of",
    "query_of",
    "runs",
    "sql_of",
]
