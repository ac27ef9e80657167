"""A job in a process of its own, for tests that kill it:  crash_job.py FOLDER [--help]"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import branches
import enrichment
import support
from pyspark import cloudpickle

from state_engine.spark import DeltaSink, StreamJob, local_session
from state_engine.spark.driver.client import JobClient
from state_engine.spark.driver.startup import StartOptions

OPTIONS: Any = {"checkpoint_interval_ms": 10, "heartbeat_interval_ms": 60_000}
"""A checkpoint in each epoch, and none in between: tests name the epochs in which this process ends."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--restore")
    parser.add_argument("--parallelism", type=int)
    parser.add_argument("--rescale", type=int, help="another parallelism, with the first epoch")
    parser.add_argument("--connected", action="store_true", help="two sources that meet in one operator")
    parser.add_argument("--branches", action="store_true", help="operators that several others read, and two ends")
    arguments = parser.parse_args()
    cloudpickle.register_pickle_by_value(support)
    cloudpickle.register_pickle_by_value(enrichment)
    cloudpickle.register_pickle_by_value(branches)
    spark = local_session("crash-job", memory="1g")
    make = connected if arguments.connected else branched if arguments.branches else tally
    if arguments.rescale is None:
        support.run_all(make(spark, arguments.folder), restore=arguments.restore, parallelism=arguments.parallelism)
    else:
        run_rescaled(make(spark, arguments.folder), arguments.rescale)


def run_rescaled(job: StreamJob, parallelism: int) -> None:
    client = JobClient(job.definition, StartOptions(available_now=True))
    with client._lock:  # no epoch is planned before the request
        client.start()
        rescaled = client.rescale(parallelism)
    assert client.await_termination(120)
    assert rescaled.result(0)


def tally(spark: Any, folder: Path) -> StreamJob:
    source = support.Input(folder / "in").stream(spark)
    return support.tally_job(source, folder / "root", "crash", support.outputs(folder / "out"), **OPTIONS)


def connected(spark: Any, folder: Path) -> StreamJob:
    sink, folders = DeltaSink(str(folder / "out")), support.Folders(folder, 2)
    return enrichment.enrich_job(spark, folders, folder / "root", "crash", sink, **OPTIONS)


def branched(spark: Any, folder: Path) -> StreamJob:
    def sink(output: str) -> DeltaSink:
        return DeltaSink(str(folder / "out" / output))

    source = support.Input(folder / "in").stream(spark)
    return branches.branch_job(source, folder / "root", "crash", sink=sink, **OPTIONS)


if __name__ == "__main__":
    main()
