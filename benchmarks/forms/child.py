"""Runs a workload of forms in its own process: `python -m benchmarks.forms.child <case.json>`."""

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Protocol

import msgspec
from pyspark.sql import SparkSession

from benchmarks.engines.spark import MEMORY
from benchmarks.forms.kafka import KafkaSource
from benchmarks.forms.measure import ROWS
from benchmarks.forms.model import WORKLOADS, FormCase, FormRow
from benchmarks.forms.sinks import Sinks
from benchmarks.forms.skew import Skew
from benchmarks.forms.wide import Wide
from state_engine.spark import local_session


class Stream(Protocol):
    """The jobs of a workload, over the files that it has written."""

    def run(self, spark: SparkSession, form: str, name: str) -> float:
        """Runs a form as a job of this name, and returns its records a second."""

    def is_right(self, form: str, name: str) -> bool:
        """Returns whether the results of a job that has run are those of a recount."""


def main(path: str) -> None:
    """Runs all forms in turn, and writes the rows of the report."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=FormCase)
    stream, work = stream_of(case), Path(case.work)
    spark = local_session(
        f"benchmark-{case.workload}",
        "2",
        shuffle_partitions=2,
        memory=MEMORY,
        extra={"spark.local.dir": str(work / "local")},
        connectors=WORKLOADS[case.workload].connectors,
    )
    forms = WORKLOADS[case.workload].beside
    speeds, right = defaultdict[str, list[float]](list), defaultdict[str, bool](lambda: True)
    for number in range(case.rounds):
        for form in forms:
            name = f"{form.replace('/', '-').replace(' ', '-')}-{number}"
            speeds[form].append(stream.run(spark, form, name))
            right[form] &= stream.is_right(form, name)
    spark.stop()
    (work / ROWS).write_bytes(msgspec.json.encode([_row(case, form, speeds, right) for form in forms]))


def stream_of(case: FormCase) -> Stream:
    """Writes the files of a workload, and returns its jobs."""
    streams: Mapping[str, type[Wide | Skew | Sinks | KafkaSource]] = {
        "wide": Wide,
        "skew": Skew,
        "sinks": Sinks,
        "kafka_source": KafkaSource,
    }
    return streams[case.workload](case)


def _row(case: FormCase, form: str, speeds: Mapping[str, list[float]], right: Mapping[str, bool]) -> FormRow:
    return FormRow(
        workload=case.workload,
        form=form,
        keys=case.keys,
        epoch_records=case.epoch,
        runs=len(speeds[form]),
        records_per_second=round(median(speeds[form])),
        results_equal=right[form],
    )


if __name__ == "__main__":
    main(sys.argv[1])
