"""The expected results of the flights job, recomputed as one batch in DuckDB.

It uses window functions over the same Parquet files, and shares neither code nor order of evaluation with the job.
Results with floating point can be compared exactly: delays are whole minutes, so each sum of five is exact in any
order, and a mean is one division, which IEEE 754 rounds the same everywhere.
"""

from pathlib import Path

from lakestate.examples.compare import Truth
from state_engine.extras import from_extra

with from_extra("demo"):
    import duckdb

# One window serves all: a flight's place among those of its partition. (event_time, carrier, flight, origin) is total.
_LEGS = """
CREATE TABLE numbered AS
SELECT *,
       count(*) FILTER (dep_time IS NOT NULL) OVER so_far AS legs,
       count(*) FILTER (dep_time IS NULL) OVER so_far AS cancelled
FROM flights
WHERE tailnum IS NOT NULL
WINDOW so_far AS (PARTITION BY tailnum ORDER BY event_time, carrier, flight, origin ROWS UNBOUNDED PRECEDING);

-- Legs whose delay is known, with the number of punctual ones before and at each: a run of late legs shares it.
CREATE TABLE known AS
SELECT *,
       row_number() OVER so_far AS place,
       count(*) FILTER (arr_delay <= 15) OVER so_far AS run
FROM numbered
WHERE dep_time IS NOT NULL AND arr_delay IS NOT NULL
WINDOW so_far AS (PARTITION BY tailnum ORDER BY event_time, carrier, flight, origin ROWS UNBOUNDED PRECEDING);

CREATE TABLE measured AS
SELECT tailnum, event_time, carrier, flight, origin,
       sum(arr_delay) OVER last_five / count(*) OVER last_five AS mean_delay,
       count(*) FILTER (arr_delay > 15) OVER same_run AS streak
FROM known
WINDOW last_five AS (PARTITION BY tailnum ORDER BY place ROWS 4 PRECEDING),
       same_run AS (PARTITION BY tailnum, run ORDER BY place ROWS UNBOUNDED PRECEDING);

-- A leg without a delay keeps what the one before it had.
CREATE TABLE legs AS
SELECT event_time, carrier, flight, origin, tailnum, dest, arr_delay, legs, cancelled,
       last_value(mean_delay IGNORE NULLS) OVER so_far AS rolling_delay,
       coalesce(last_value(streak IGNORE NULLS) OVER so_far, 0) AS late_streak,
       row_number() OVER (PARTITION BY tailnum, dest ORDER BY event_time, carrier, flight, origin) AS route_legs
FROM numbered LEFT JOIN measured USING (tailnum, event_time, carrier, flight, origin)
WHERE dep_time IS NOT NULL
WINDOW so_far AS (PARTITION BY tailnum ORDER BY event_time, carrier, flight, origin ROWS UNBOUNDED PRECEDING);

CREATE TABLE carriers AS
SELECT event_time, carrier, flight, origin,
       count(*) OVER so_far AS legs,
       count(*) FILTER (arr_delay > 15) OVER so_far AS late_legs,
       max(late_streak) OVER so_far AS worst_late_streak
FROM legs
WINDOW so_far AS (PARTITION BY carrier ORDER BY event_time, flight, origin ROWS UNBOUNDED PRECEDING);
"""

_OUTPUTS = {
    "legs": "SELECT * FROM legs",
    "carriers": "SELECT * FROM carriers",
    "no_tailnum": "SELECT event_time, carrier, flight, origin, dest, dep_time FROM flights WHERE tailnum IS NULL",
}

_STATES = {
    ("aircraft", "legs"): "SELECT tailnum, count(*) AS value FROM legs GROUP BY ALL",
    ("aircraft", "cancelled"): "SELECT tailnum, count(*) AS value FROM numbered WHERE dep_time IS NULL GROUP BY ALL",
    ("aircraft", "rolling_delay"): """
        SELECT tailnum, list(arr_delay ORDER BY place) AS value
        FROM (SELECT * FROM known QUALIFY row_number() OVER (PARTITION BY tailnum ORDER BY place DESC) <= 5)
        GROUP BY ALL""",
    ("aircraft", "late_streak"): """
        SELECT tailnum, arg_max(late_streak, legs) AS value FROM legs
        GROUP BY ALL HAVING count(arr_delay) > 0""",
    ("aircraft", "routes"): "SELECT tailnum, dest AS user_key, count(*) AS value FROM legs GROUP BY ALL",
    ("carrier", "record"): """
        SELECT carrier, struct_pack(
                   legs := count(*),
                   late_legs := count(*) FILTER (arr_delay > 15),
                   worst_late_streak := max(late_streak)) AS value
        FROM legs GROUP BY ALL""",
}

KEYS = {"legs": ("event_time", "carrier", "flight", "origin"), "aircraft": ("tailnum",), "carrier": ("carrier",)}
KEYS["carriers"] = KEYS["no_tailnum"] = KEYS["legs"]
"""The columns that identify a row: of an output by its name, of a state by its operator's uid."""


def compute_truth(folder: Path) -> Truth:
    """Recomputes outputs and final states from all Parquet files in a folder, in any order of files."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.read_parquet(str(folder / "*.parquet")).create("flights")
        connection.execute(_LEGS)
        return Truth(
            connection.sql("SELECT count(*) FROM flights").fetchall()[0][0],
            {name: connection.sql(query).to_arrow_table() for name, query in _OUTPUTS.items()},
            {name: connection.sql(query).to_arrow_table() for name, query in _STATES.items()},
            KEYS,
        )


__all__ = ["KEYS", "compute_truth"]
