"""Runs Lakestate: the queries in each of its forms."""

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.engines.epochs import EpochEnds
from benchmarks.engines.lakestate import state_backend
from benchmarks.engines.spark import MEMORY
from benchmarks.model import CONTENDERS, EMITTED, Case, Outcome
from benchmarks.nexmark import declared_programs, row_programs, vectorised_programs
from benchmarks.nexmark.events import COLUMNS
from benchmarks.nexmark.queries import QUERIES, form_of, query_of
from benchmarks.nexmark.rows import final, sums, told
from state_engine.api import WatermarkStrategy
from state_engine.spark import EpochId, ForeachEpochSink, StreamJob, local_session
from state_engine.spark.graph.stream import DataStream

PROGRAMS = {
    "row": row_programs.PROGRAMS,
    "vectorised": vectorised_programs.PROGRAMS,
    "declared": declared_programs.PROGRAMS,
}
"""The programs by form."""


def run(case: Case) -> Outcome:
    """Runs one case to the end of its input."""
    spark = local_session(
        "benchmark-nexmark",
        str(case.parallelism),
        shuffle_partitions=case.parallelism,
        memory=MEMORY,
        extra={"spark.local.dir": str(Path(case.work) / "local")},
    )
    outcome = run_in(spark, case)
    spark.stop()
    return outcome


def run_in(spark: SparkSession, case: Case) -> Outcome:
    """Runs one case in a session."""
    ends, given, query = EpochEnds(), GivenRows(), query_of(case.workload)
    spark.streams.addListener(ends)
    job(spark, case, given).start(spark, available_now=True).await_termination()
    # After the last records more epochs fire the remaining timers. These end the input, and do not count.
    times = ends.wait(case.epochs, more=True)
    rows = given.rows
    if form_of(CONTENDERS[case.engine]) == "declared" and query in declared_programs.RESULTS:
        rows = told(rows, declared_programs.RESULTS[query])
    return Outcome(times, {EMITTED: sums(final(rows, QUERIES[query].key))})


def job(spark: SparkSession, case: Case, given: "GivenRows") -> StreamJob:
    """Returns the job of a case's query; its rows go to a sink in the driver."""
    new_job = StreamJob(
        "nexmark",
        root=str(Path(case.work) / "root"),
        parallelism=case.parallelism,
        max_parallelism=128,
        state_backend=state_backend(case),
    )

    def read(kind: str) -> DataStream:
        schema = ", ".join(f"{name} bigint" for name in COLUMNS[kind])
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", case.files_per_epoch)
        records = reader.parquet(str(Path(case.inputs) / kind))
        in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
        return new_job.from_stream(records, name=kind, bounded=True).assign_timestamps_and_watermarks(in_order)

    program = PROGRAMS[form_of(CONTENDERS[case.engine])][query_of(case.workload)]
    program(read).sink_to(ForeachEpochSink(given), uid="out")
    return new_job


class GivenRows:
    """A sink function that keeps the rows. An epoch that comes a second time counts once."""

    def __init__(self) -> None:
        self._epochs: dict[EpochId, pa.Table] = {}

    def __call__(self, epoch: EpochId, rows: pa.Table) -> None:
        self._epochs[epoch] = rows

    @property
    def rows(self) -> pa.Table:
        """All rows, in the order of their epochs."""
        return pa.concat_tables(self._epochs.values())


__all__ = ["PROGRAMS", "GivenRows", "job", "run", "run_in"]
