"""What a job must come to, and what a table lacks, has too often, or has otherwise than it should."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa


class Difference(NamedTuple):
    """How a table differs from the expected one, in rows.

    Attributes:
        lost: Expected, and no row of that key is there for it.
        doubled: There, and more than are expected of that key (which may be none).
        differing: There as expected by key, but with other values.
    """

    lost: int
    doubled: int
    differing: int


class Truth(NamedTuple):
    """What a job must come to.

    Attributes:
        records: How many there are in the input.
        outputs: Tables by name.
        states: By (uid, name), with the key's columns, `user_key` of a map, and `value`: of a list the whole one, in
            order.
        keys: Columns that identify a row: of an output by its name, of a state by its operator's uid; those of a map
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
        actual: What is there; may have more columns, which are ignored, and types that cast to the expected ones.
        expected: What should be there.
        key: Columns that say which rows belong together.

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
