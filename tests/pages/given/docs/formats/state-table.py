"""A table `t` with the log of a value state with the key column `k`: values, deletes and a reset key group."""

import random

from samples import published

from state_engine.inspect import read_state
from state_engine.testing.changes import delete, put, reset_group, state

COUNT = state("counter", "count", "k string", "bigint")


def given(spark):
    rng = random.Random(1)
    builder = published("letters", [COUNT], [{("counter", "count"): changes(rng)} for _ in range(4)])

    def run_sql_of_page(text):
        spark.read.format("delta").load("state/letters/counter/count").createOrReplaceTempView("t")
        rows = spark.sql(text).collect()
        live = read_state("state", "letters", "counter", "count").to_pylist()
        assert {row.k: row.value for row in rows} == {row["k"]: row["value"] for row in live}
        assert len(rows) == len(live) == len(builder.rows("counter", "count"))

    yield {"run_sql_of_page": run_sql_of_page}


def changes(rng):
    """Returns changes of one epoch, null keys among them; a key group is reset in the middle."""
    keys = [None, *"abcdefghijkl"]
    of_epoch = [rng.choice([put, put, delete_of])(rng.choice(keys), rng.randrange(9)) for _ in range(12)]
    of_epoch.insert(6, reset_group(rng.randrange(13)))
    return of_epoch


def delete_of(key, value):
    return delete(key)
