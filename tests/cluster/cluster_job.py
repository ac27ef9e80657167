"""A driver on a cluster, in a process of its own:  cluster_job.py WHAT MASTER FOLDER BARE

BARE is an interpreter without Lakestate. Prints one line of JSON at the end.

`refused`: a start with BARE, which must be refused.
`joins`: the executor of a running job is killed, and its successor has BARE.
`runs`: counts records into a Delta table until there is a file `stop`.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

import support
from pyspark import cloudpickle
from standalone import EXTRA

from state_engine.errors import SessionError
from state_engine.spark import DeltaSink, cluster_session


def counting(spark: Any, folder: Path, source: support.Input) -> Any:
    return support.count_job(source.stream(spark), folder / "root", "counted")


def refused(master: str, folder: Path, bare: str) -> dict[str, Any]:
    source = support.Input(folder / "in").add_many(2)
    spark = cluster_session(master, python=bare, extra=EXTRA)
    refusal = "none"
    try:
        counting(spark, folder, source).start(available_now=True)
    except SessionError as error:
        refusal = str(error)
    spark.stop()
    return {"refusal": refusal, "touched": (folder / "root" / "counted" / "_epochs").exists()}


def joins(master: str, folder: Path, bare: str) -> dict[str, Any]:
    source = support.Input(folder / "in").add_many(1)
    broken, python = folder / "broken", folder / "python"
    python.write_text(f'#!/bin/sh\n[ -f {broken} ] && exec {bare} "$@"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    spark = cluster_session(master, python=str(python), extra=EXTRA)
    client = counting(spark, folder, source).start(trigger_interval_ms=100)
    support.with_epochs(client, 1)
    broken.touch()
    for process in Path("/proc").glob("[0-9]*"):
        words = _command_of(process)
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and str(folder).encode() in words:
            os.kill(int(process.name), signal.SIGKILL)
    source.add_many(1)
    support.wait_for(lambda: client.state == "FAILED", "the failure", 120)
    broken.unlink()
    errors, failed_at = [client.exception], client.head.manifest.epoch
    client.stop()
    again = counting(spark, folder, source).start(available_now=True)  # on the executor that could not start workers
    with contextlib.suppress(SessionError):
        again.await_termination(120)
    errors.append(again.exception)
    again.stop()
    spark.stop()
    support.run_all(counting(cluster_session(master, python=str(python), extra=EXTRA), folder, source))
    support.assert_counts(folder / "root", "counted", source.all)
    return {"errors": [f"{type(error).__name__}: {error}" for error in errors], "epoch": failed_at}


def runs(master: str, folder: Path, bare: str) -> dict[str, Any]:
    spark, sink = cluster_session(master, extra=EXTRA), DeltaSink(str(folder / "table"))
    source = support.Input(folder / "in").stream(spark)
    job = support.count_job(source, folder / "root", "counted", sink=sink, parallelism=4)
    client = job.start(trigger_interval_ms=0)
    while not (folder / "stop").exists() and not client.await_termination(0.2):
        pass
    client.stop()
    spark.stop()
    return {"state": client.state}


def _command_of(process: Path) -> bytes:
    """Returns the command line of a process, and its working folder, by which executors of other clusters differ."""
    try:
        return (process / "cmdline").read_bytes() + os.readlink(process / "cwd").encode()
    except OSError:
        return b""


if __name__ == "__main__":
    cloudpickle.register_pickle_by_value(support)
    what, address, place, without = sys.argv[1:]
    print(json.dumps({"refused": refused, "joins": joins, "runs": runs}[what](address, Path(place), without)))
