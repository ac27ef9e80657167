"""The expected results of the orders job, recomputed as one batch in DuckDB.

The job processes records and timers one by one. Here each order is computed as a whole: when it was settled, and which
times of the schedule came before that. Only the meaning of the input is shared with the job.

A timer fires after the records of its own millisecond: the watermark is one millisecond behind the newest record.

The state `paid` is left out, since the time at which an expired entry is removed is not specified. Its effect is
visible in `returned`.
"""

from pathlib import Path

import pyarrow as pa

from lakestate.examples.compare import Truth
from state_engine.extras import from_extra

with from_extra("demo"):
    import duckdb

_ORDERS = """
CREATE TABLE placed AS
SELECT order_id, customer, amount, event_time AS placed_at FROM records WHERE kind = 'placed';

CREATE TABLE payments AS
SELECT records.*, placed_at FROM records JOIN placed USING (order_id) WHERE kind = 'paid';

-- The first payment within seven days settles an order.
CREATE TABLE orders AS
SELECT placed.*, settled_at, coalesce(settled_at, placed_at + INTERVAL 7 DAY) AS closed_at
FROM placed LEFT JOIN (
    SELECT order_id, min(event_time) AS settled_at FROM payments
    WHERE event_time <= placed_at + INTERVAL 7 DAY GROUP BY ALL
) USING (order_id);

CREATE TABLE sent AS
SELECT placed_at + wait AS event_time, customer, order_id, reminder, amount
FROM orders, (VALUES (1, INTERVAL 1 DAY), (2, INTERVAL 3 DAY)) AS schedule(reminder, wait)
WHERE placed_at + wait < closed_at AND placed_at + wait <= $until;
"""

_OUTPUTS = {
    "reminders": """
        WITH ordered AS (
            SELECT sent.event_time, sent.order_id, count(*) AS orders,
                   sum(orders.amount) FILTER (closed_at > sent.event_time) AS owed
            FROM sent JOIN orders ON orders.customer = sent.customer AND orders.placed_at <= sent.event_time
            GROUP BY ALL
        ),
        earlier AS (
            SELECT sent.event_time, sent.order_id, least(count(*), 5) AS recent
            FROM sent JOIN sent AS other ON other.customer = sent.customer
                AND other.event_time > sent.event_time - INTERVAL 7 DAY
                AND (other.event_time, other.order_id) <= (sent.event_time, sent.order_id)
            GROUP BY ALL
        )
        SELECT event_time, customer, order_id, reminder::BIGINT AS reminder, amount,
               orders, owed::BIGINT AS owed, recent::BIGINT AS recent
        FROM sent JOIN ordered USING (event_time, order_id) JOIN earlier USING (event_time, order_id)""",
    "cancelled": """
        SELECT closed_at AS event_time, customer, order_id, amount, placed_at
        FROM orders WHERE settled_at IS NULL AND closed_at <= $until""",
    "returned": """
        SELECT event_time, seq, payments.customer, order_id, payments.amount,
               CASE WHEN event_time <= settled_at + INTERVAL 14 DAY THEN 'paid twice' ELSE 'not open' END AS reason
        FROM payments JOIN orders USING (order_id) WHERE settled_at IS NULL OR event_time > settled_at""",
}

_STATES = {
    ("customer", "orders"): "SELECT customer, count(*) AS value FROM orders GROUP BY ALL",
    ("customer", "unpaid"): """
        SELECT customer, order_id AS user_key, struct_pack(
                   amount := any_value(orders.amount),
                   placed_at := any_value(placed_at),
                   reminders := count(sent.event_time)) AS value
        FROM orders LEFT JOIN sent USING (customer, order_id)
        WHERE settled_at IS NULL AND closed_at > $until GROUP BY ALL""",
    ("customer", "reminded"): """
        SELECT customer, list(event_time ORDER BY event_time, order_id) AS value
        FROM (SELECT * FROM sent
              QUALIFY row_number() OVER (PARTITION BY customer ORDER BY event_time DESC, order_id DESC) <= 5)
        GROUP BY ALL""",
}

KEYS = {
    "reminders": ("order_id", "reminder"),
    "cancelled": ("order_id",),
    "returned": ("seq",),
    "customer": ("customer",),
}
"""The columns that identify a row: of an output by its name, of a state by its operator's uid."""


def compute_truth(folder: Path, *, drained: bool = False) -> Truth:
    """Recomputes outputs and final states from all Parquet files in a folder, in any order of files.

    Args:
        folder: Of the files.
        drained: The input has ended, so that all timers have fired. Otherwise only those timers have fired that the
            watermark of the last record has passed.
    """
    until = "TIMESTAMPTZ '9999-12-31'" if drained else "(SELECT max(event_time) - INTERVAL 1 MILLISECOND FROM records)"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.read_parquet(str(folder / "*.parquet")).create("records")
        connection.execute(_ORDERS.replace("$until", until))

        def ask(query: str) -> pa.Table:
            table: pa.Table = connection.sql(query.replace("$until", until)).to_arrow_table()
            return table

        return Truth(
            connection.sql("SELECT count(*) FROM records").fetchall()[0][0],
            {name: ask(query) for name, query in _OUTPUTS.items()},
            {name: ask(query) for name, query in _STATES.items()},
            KEYS,
        )


__all__ = ["KEYS", "compute_truth"]
