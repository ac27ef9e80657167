"""Runs the peer Apache Flink with SQL, over the same events in one stream."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.engines.flink import Job, java_command, outcome, parts_of, settings
from benchmarks.model import Case, Outcome
from benchmarks.nexmark.events import AUCTION, BID, COLUMNS, PERSON
from benchmarks.nexmark.queries import QUERIES, query_of, sql_of

KINDS = (PERSON, AUCTION, BID)
WIDTH = max(map(len, COLUMNS.values())) - 1
"""Number of columns of an event besides its kind and its time."""
HEAP_GB = 6
"""In q4 Flink keeps all bids; with 2 GiB it only collects garbage."""


def run(case: Case) -> Outcome:
    """Runs one case to its end; raises as its parts do."""
    query, work = QUERIES[query_of(case.workload)], Path(case.work)
    file = work / "query.sql"
    file.write_text(sql_of(case.workload, "flink"))
    of_kinds = [
        [_event(kind, part) for part in parts_of(Path(case.inputs) / kind, case.files_per_epoch)]
        for kind in query.reads
    ]
    parts = [pa.concat_tables(tables).sort_by("t") for tables in zip(*of_kinds, strict=True)]
    job = Job(f"nexmark:{query.key}:{file}", 0, settings(case), HEAP_GB)
    return outcome(java_command(job, parts, work), case)


def _event(kind: str, events: pa.Table) -> pa.Table:
    """Returns events of a kind in the columns that all kinds share."""
    columns = [events.column(name) for name in COLUMNS[kind][:-1]]
    padding = [pa.array(np.zeros(len(events), np.int64))] * (WIDTH - len(columns))
    number = pa.array(np.full(len(events), KINDS.index(kind)))
    names = ["kind", *(f"c{n}" for n in range(WIDTH)), "t"]
    return pa.table([number, *columns, *padding, events.column("t")], names=names)


__all__ = ["run"]
