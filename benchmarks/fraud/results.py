"""The results of the fraud job as comparable tables, and the expected ones from the example's recount."""

import datetime
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.model import Tables
from lakestate.examples.fraud.truth import compute_truth

OUTPUTS = ("alerts", "sessions", "late", "malformed")
"""What the operator `card` emits, by name of the sink."""
MORE_OUTPUTS = ("merchants", "late_alerts")
"""What the stream has beyond it."""
STATES = ("recent", "spent", "place", "total")
"""The states that are not empty once the input has ended and all timers have fired."""


def as_table(rows: Iterable[Any]) -> pa.Table:
    """Returns rows of any shape as one column of texts; columns of structs and lists cannot be sorted."""
    return pa.table({"row": pa.array([repr(plain(row)) for row in rows], pa.string())})


def plain(value: Any) -> Any:
    """Returns structs, which are dicts or rows, as tuples, and times in the one spelling of UTC."""
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC)
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return tuple(plain(part) for part in value.values())
    return tuple(plain(part) for part in value) if hasattr(value, "__iter__") and not isinstance(value, str) else value


@lru_cache(maxsize=4)
def expected(inputs: Path) -> Tables:
    """Returns all outputs and states, recomputed from the files; the input has ended, so all timers have fired."""
    truth = compute_truth(inputs, drained=True)
    outputs = {name: as_table(table.to_pylist()) for name, table in truth.outputs.items()}
    return outputs | {name: as_table(truth.states["card", name].to_pylist()) for name in STATES}


__all__ = ["MORE_OUTPUTS", "OUTPUTS", "STATES", "as_table", "expected", "plain"]
