"""Jobs on two executors of one core each, which record where each record was processed:  locality_job.py FOLDER

`stays` and `anywhere` have two operators in sequence, with and without preferred locations. `branched` has three
subtasks for the two executors, and operators that run side by side. In `killed` an executor dies in the middle of an
epoch, and more input comes when it has a successor.
"""

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import branches
import executor_job
import support
from pyspark import cloudpickle
from test_one_spark_job_per_epoch import work_of

from state_engine.spark import DeltaSink, StreamJob, local_session

ROWS = 40
KILLED_IN = 5
"""The number of the file during which the executor is killed."""
BRANCHED = 4
"""How many files the branched job gets."""


class Telling:
    """A mixin before a function: records each record's file, executor and worker, in one file per subtask."""

    def __init__(self, told: Path) -> None:
        self.folder = str(told)

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)  # type: ignore[misc]
        self.file = f"{self.folder}-{runtime_context.get_index_of_this_subtask()}"

    def process_element(self, value: Any, ctx: Any) -> Any:
        with open(self.file, "a") as file:
            file.write(f"{value.n // ROWS} {executor_job.executor()} {os.getpid()}\n")
        return super().process_element(value, ctx)  # type: ignore[misc]


class TellingTally(Telling, support.Tally):
    """The function of the first operator."""


class TellingTotals(Telling, support.Totals):
    """The function of the second operator."""


class KillingTally(TellingTally):
    """Kills its executor once, at a record in the middle of a file.

    Args:
        told: As in `Telling`.
        marker: The file that records which executor was killed.
    """

    def __init__(self, told: Path, marker: Path) -> None:
        super().__init__(told)
        self.marker = str(marker)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value.n >= (KILLED_IN + 0.5) * ROWS and executor_job.once(self.marker):
            pid = executor_job.executor()
            Path(self.marker).write_text(str(pid))
            os.kill(pid, signal.SIGKILL)
        return super().process_element(value, ctx)


def main(folder: Path) -> None:
    for module in (support, branches, executor_job, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)
    extra = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    spark = local_session("locality-job", memory="1g", extra=extra)
    executor_job.wait_for_successor(spark)  # the executors themselves start after the driver
    source = support.Input(folder / "in").stream(spark)
    for name, options in ("stays", {}), ("anywhere", {"preferred_locations": False}):
        run(folder, tally_job(source, folder, name, **options))
    few = support.Input(folder / "branched-in")
    give(sorted((folder / "in").glob("*.parquet"))[:BRANCHED], few.folder)
    run(folder, branched_job(few.stream(spark), folder))
    run_killed(spark, folder)


def tally_job(source: Any, folder: Path, name: str, first: Any = None, **options: Any) -> StreamJob:
    told = folder / name / "told"
    told.mkdir(parents=True)
    first, second = first or TellingTally(told / "tally"), TellingTotals(told / "totals")
    sinks = support.outputs(folder / name)
    return support.tally_job(source, folder / "root", name, sinks, first=first, second=second, **options)


def branched_job(source: Any, folder: Path) -> StreamJob:
    told = folder / "branched" / "told"
    told.mkdir(parents=True)
    return branches.branch_job(
        source,
        folder / "root",
        "branched",
        parallelism=3,
        first=TellingTally(told / "tally"),
        sink=lambda output: DeltaSink(str(folder / "branched" / output)),
    )


def run(folder: Path, job: StreamJob) -> None:
    report(folder, job, support.run_all(job))


def run_killed(spark: Any, folder: Path) -> None:
    """Provides one part of the input, and the rest once the killed executor has a successor."""
    files, source = sorted((folder / "in").glob("*.parquet")), support.Input(folder / "killed-in")
    give(files[: KILLED_IN + 1], source.folder)
    first = KillingTally(folder / "killed" / "told" / "tally", folder / "victim")
    job = tally_job(source.stream(spark), folder, "killed", first)
    client = support.with_epochs(job.start(), KILLED_IN + 1)
    executor_job.wait_for_successor(spark)
    give(files[KILLED_IN + 1 :], source.folder)
    support.with_epochs(client, len(files))
    client.stop()
    report(folder, job, client)


def give(files: list[Path], folder: Path) -> None:
    """Copies files with their modification times: the oldest file is read first."""
    for file in files:
        hidden = folder / f".{file.name}"
        shutil.copy2(file, hidden)
        hidden.rename(folder / file.name)


def report(folder: Path, job: StreamJob, client: Any) -> None:
    works = partial(work_of, job.definition.session, str(client.query.runId))
    support.wait_for(lambda: len(works()) >= client.spark_jobs, "the end of all jobs in Spark's books")
    result = {"epochs": len(client.epochs), "works": works()}
    (folder / f"{job.name}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
