"""Runs the stream of the fraud job: two operators, six Delta sinks."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.engines.epochs import EpochEnds
from benchmarks.engines.spark import MEMORY
from benchmarks.fraud.results import MORE_OUTPUTS, OUTPUTS, STATES, as_table
from benchmarks.model import Case, Outcome
from lakestate.examples.compare import collect_lists
from lakestate.examples.fraud.job import build
from state_engine.inspect import read_state
from state_engine.spark import local_session

JOB, UID = "fraud", "card"


def run(case: Case) -> Outcome:
    """Runs the stream until its input ends, and reads its tables and states."""
    work = Path(case.work)
    spark = local_session(
        "benchmark-fraud",
        str(case.parallelism),
        shuffle_partitions=case.parallelism,
        memory=MEMORY,
        extra={"spark.local.dir": str(work / "local")},
    )
    ends = EpochEnds()
    spark.streams.addListener(ends)
    root, tables = str(work / "root"), work / "tables"
    client = build(spark, root, {"input": case.inputs, "tables": str(tables)}).start(spark, trigger_interval_ms=0)
    while ends.reported < case.epochs:
        client.await_termination(0.05)
    client.stop(drain=True)
    outputs = {
        name: as_table(DeltaTable(str(tables / name)).to_pyarrow_table().to_pylist())
        for name in (*OUTPUTS, *MORE_OUTPUTS)
    }
    outcome = Outcome(
        ends.wait(case.epochs, more=True), outputs | {name: state(root, name) for name in STATES if name != "spent"}
    )
    spark.stop()
    return outcome


def output(table: Path) -> pa.Table:
    """Returns the rows of a sink."""
    return as_table(DeltaTable(str(table)).to_pyarrow_table().to_pylist())


def state(root: str, name: str) -> pa.Table:
    """Returns a state as rows of key, user key if it is a map, and value."""
    rows = read_state(root, JOB, UID, name)
    if name == "recent":
        rows = collect_lists(rows, ["card"])
    columns = [column for column in ("card", "user_key", "value") if column in rows.column_names]
    return as_table(rows.select(columns).to_pylist())
