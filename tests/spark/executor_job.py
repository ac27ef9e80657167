"""Jobs on two executors; each job has one of them killed in its second stage:  executor_job.py FOLDER

The first operator is not deterministic: each attempt of a record gives another value, and both operators keep it. A mix
of two attempts in one sealed epoch would show as a difference between the two operators.

In the job `branched` a third operator also reads the first one. All operators must have read the same attempt.

The job `killed` runs as every job does. `unguarded` runs without the checksums with which Spark itself notices that a
subtask ran again with another result. Its executor dies when one subtask of the second operator has read all of its
input and the other has not. Then only the driver's check of the barriers can distinguish the attempts.
"""

import json
import os
import signal
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import support
from pyspark import cloudpickle

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.epoch.acks import Acknowledged, acknowledge
from state_engine.epoch.ports import EpochPlan
from state_engine.log.barriers import Barrier
from state_engine.spark import DeltaSink, StreamJob, local_session

SWITCHES = (
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
)

FIRST = "n bigint, k string, sub string, token string"


class Token(KeyedProcessFunction):
    """Stores and emits a token that is different in each attempt."""

    def open(self, runtime_context: Any) -> None:
        self.token = runtime_context.get_state(ValueStateDescriptor("token", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        token = uuid.uuid4().hex
        self.token.update(token)
        yield (value.n, value.k, value.sub, token)


class Keep(KeyedProcessFunction):
    """Keeps the token of each `n`; kills its executor once, in the middle of the second file.

    Args:
        marker: The file that records which executor was killed; without it no executor is killed.
        staged: The folder where this operator stages its output: kill when the other subtask has ended its epoch.
    """

    def __init__(self, marker: str | None = None, staged: str | None = None) -> None:
        self.marker, self.staged = marker, staged

    def open(self, runtime_context: Any) -> None:
        self.other = 1 - runtime_context.get_index_of_this_subtask()
        self.token = runtime_context.get_state(ValueStateDescriptor("token", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if value.n >= 90 and self.marker is not None and once(self.marker):
            if self.staged is not None:
                support.wait_for(lambda: has_ended(Path(self.staged), self.other), "the other subtask", 30)
            pid = executor()
            Path(self.marker).write_text(Path(f"/proc/{pid}/cmdline").read_text())
            os.kill(pid, signal.SIGKILL)
        self.token.update(value.token)
        return [(value.n, value.k, value.sub, value.token)]


def once(marker: str) -> bool:
    """Returns True only for the first call with this marker, over all processes."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def has_ended(staged: Path, subtask: int) -> bool:
    """Returns whether a subtask has written all output for its second file, and so has read all of its input."""
    files = sorted(staged.glob(f"part-*-{subtask}-*.parquet"))
    return len(files) > 1 and files[-1].read_bytes()[-4:] == b"PAR1"


def executor() -> int:
    """Returns the process id of the JVM that this Python worker serves: the parent of the daemon that forked it."""
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


def main(folder: Path) -> None:
    cloudpickle.register_pickle_by_value(support)
    extra = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.task.maxFailures": "4",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    spark = local_session("executor-job", memory="1g", extra=extra)
    run(spark, folder, "killed", wait=False)
    wait_for_successor(spark)
    for switch in SWITCHES:
        spark.conf.set(switch, "false")
    run(spark, folder, "unguarded", wait=True)
    wait_for_successor(spark)
    run(spark, folder, "branched", wait=True, branched=True)


def wait_for_successor(spark: Any) -> None:
    executors = spark.sparkContext._jsc.sc()
    support.wait_for(lambda: executors.getExecutorMemoryStatus().size() == 3, "the killed executor's successor")


def run(spark: Any, folder: Path, name: str, *, wait: bool, branched: bool = False) -> None:
    """Runs a job to its end and writes the driver's decision about each attempt at an epoch to a file."""
    out = folder / name
    job = StreamJob(name, root=str(folder / "root"), parallelism=2)
    stream = job.from_stream(support.Input(folder / "in").stream(spark))
    first = stream.key_by("n").process(Token(), FIRST, uid="first")
    first.sink_to(DeltaSink(str(out / "first")), uid="first-out")
    keep = Keep(str(folder / f"{name}-victim"), str(out / "second") if wait else None)
    second = first.key_by("n").process(keep, FIRST, uid="second")
    second.sink_to(DeltaSink(str(out / "second")), uid="second-out")
    if branched:
        third = first.where("n >= 0").key_by("n").process(Keep(), FIRST, uid="third")
        third.sink_to(DeltaSink(str(out / "third")), uid="third-out")
    answers: list[tuple[int, str]] = []
    client = watched(job, answers)
    report = {"answers": answers, "epochs": len(client.epochs), "jobs": client.spark_jobs}
    (folder / f"{name}.json").write_text(json.dumps(report))


def watched(job: StreamJob, answers: list[tuple[int, str]]) -> Any:
    """Runs a job and records (epoch, answer) of each decision of the driver."""

    def noting(plan: EpochPlan, barriers: Sequence[Barrier]) -> Acknowledged:
        decision = acknowledge(plan, barriers)
        answers.append((plan.epoch, decision.answer.name))
        return decision

    with mock.patch("state_engine.epoch.driver.acknowledge", noting):
        return support.run_all(job)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
