"""Workload `map_and_list`: count a key's items in a map and keep its values in a list.

When an item's count becomes a multiple of `EVERY`, the item, its count and the sum of the list are emitted, and the
list is cleared. So the contents of a list depend on the order of a key's records, which is that of the files.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, Longs
from benchmarks.model import EMITTED, MAP_AND_LIST, REFERENCE, ROW_ENGINES, VECTORISED, Tables
from benchmarks.workloads.workload import Workload, checks_of, longs

ITEMS = 10
VALUES = 1000
EVERY = 8


def draw(records: int) -> Mapping[str, Longs]:
    """Returns an `item` and a value `v` for each record."""
    random = np.random.default_rng(SEED + 1)
    return {
        "item": random.integers(0, ITEMS, size=records, dtype=np.int64),
        "v": random.integers(0, VALUES, size=records, dtype=np.int64),
    }


def truth(records: pa.Table, keys: int) -> Tables:
    """Returns the counts of each key's items, the remaining values of its list, and sums of the emitted rows."""
    k, item, v = (longs(records, name) for name in ("k", "item", "v"))
    order = np.argsort(k, kind="stable")
    k, item, v = k[order], item[order], v[order]
    n = occurrences(k * ITEMS + item)
    emits = n % EVERY == 0
    # A list begins anew with each key, and after each record that emits.
    begins = np.append(True, (k[1:] != k[:-1]) | emits[:-1])
    lists = np.cumsum(begins) - 1
    sums = np.add.reduceat(v, np.flatnonzero(begins))
    remaining = ~np.bincount(lists, emits).astype(bool)[lists]
    numbers = (sums[lists[emits]] + n[emits]) * ITEMS + item[emits]
    return {
        "counts": records.group_by(["k", "item"]).aggregate([((), "count_all")]).rename_columns(["k", "item", "n"]),
        "values": pa.table({"k": k[remaining], "v": v[remaining]}),
        EMITTED: checks_of(k[emits], numbers),
    }


def occurrences(values: Longs) -> Longs:
    """Returns for each position how often its value has occurred up to and including it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    lengths = np.diff(np.append(begins, len(values)))
    counts = np.empty(len(values), np.int64)
    counts[order] = np.arange(len(values)) - np.repeat(begins, lengths) + 1
    return counts


MAP_AND_LIST_WORKLOAD = Workload(
    MAP_AND_LIST,
    "A map of counts and a list of values for each key, by functions, row by row and vectorised.",
    engines=(*ROW_ENGINES, *VECTORISED, REFERENCE),
    columns={"item": "int", "v": "bigint"},
    draw=draw,
    truth=truth,
    states=("counts", "values"),
    compared=("counts", "values", EMITTED),
    number=f"(total + n) * {ITEMS} + item",
)
