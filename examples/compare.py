"""Expected results of a job, and the lost, doubled and differing rows of a table compared with them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from state_engine.extras import from_extra

with from_extra("demo"):
    import duckdb


class Difference(NamedTuple):
    """How a table differs from the expected one, in rows.

    Attributes:
        lost: Expected rows without an actual row of their key.
        doubled: Actual rows beyond the number that is expected of their key (which may be none).
        differing: Actual rows that match an expected one by key, but have other values.
    """

    lost: int
    doubled: int
    differing: int


class Truth(NamedTuple):
    """The expected results of a job.

    Attributes:
        records: Number of records in the input.
        outputs: Tables by name.
        states: Tables by (uid, name), with the key's columns, `user_key` for a map, and `value`: for a list the whole
            list, in order.
        keys: Columns that identify a row: of an output by its name, of a state by its operator's uid. Rows of a map
            state have `user_key` as well.
    """

    records: int
    outputs: dict[str, pa.Table]
    states: dict[tuple[str, str], pa.Table]
    keys: Mapping[str, tuple[str, ...]]


_COUNT = """
WITH rows AS (
    SELECT * EXCLUDE (side), count(*) FILTER (side = 'actual') AS there, count(*) FILTER (side = 'expected') AS due
    FROM (SELECT *, 'actual' AS side FROM actual UNION ALL BY NAME SELECT *, 'expected' AS side FROM expected)
    GROUP BY ALL
),
keys AS (
    SELECT {key}, sum(there) AS there, sum(due) AS due, sum(least(there, due)) AS alike FROM rows GROUP BY ALL
)
SELECT coalesce(sum(greatest(due - there, 0)), 0),
       coalesce(sum(greatest(there - due, 0)), 0),
       coalesce(sum(least(there, due) - alike), 0)
FROM keys
"""


def compare(actual: pa.Table, expected: pa.Table, key: Sequence[str]) -> Difference:
    """Compares two tables as bags of rows, whole row by whole row; nulls are equal to nulls.

    Args:
        actual: The actual rows; may have more columns, which are ignored, and types that cast to the expected ones.
        expected: The expected rows.
        key: Columns by which actual and expected rows are matched.

    Raises:
        ValueError: A column is missing, or its type cannot become the expected one without loss.
    """
    missing = [name for name in expected.column_names if name not in actual.column_names]
    if missing:
        raise ValueError(
            f"The table lacks the column(s) {', '.join(missing)}; it has {', '.join(actual.column_names)}."
        )
    with duckdb.connect() as connection:
        connection.register("actual", actual.select(expected.column_names).cast(expected.schema))
        connection.register("expected", expected)
        query = _COUNT.format(key=", ".join(f'"{name}"' for name in key))
        lost, doubled, differing = connection.sql(query).fetchall()[0]
    return Difference(int(lost), int(doubled), int(differing))


def collect_lists(state: pa.Table, key: Sequence[str]) -> pa.Table:
    """Returns one row per key of a list state that has one row per element, its elements in log order."""
    with duckdb.connect() as connection:
        connection.register("state", state)
        columns = ", ".join(f'"{name}"' for name in key)
        query = f"SELECT {columns}, list(value ORDER BY position, seq) AS value FROM state GROUP BY ALL"
        collected: pa.Table = connection.sql(query).to_arrow_table()
        return collected


__all__ = ["Difference", "Truth", "collect_lists", "compare"]
