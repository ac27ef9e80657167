"""A job on two executors, one of which is killed in its second stage:  executor_job.py FOLDER

The first operator is not deterministic: each attempt of a record gives another value, which both operators keep. A mix
of two attempts in one sealed epoch would show as a difference between the two.
"""

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import support
from pyspark import cloudpickle

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.spark import DeltaSink, StreamJob, local_session

FIRST = "n bigint, k string, sub string, token string"


class Token(KeyedProcessFunction):
    """Keeps, and passes on, a token that no two attempts share."""

    def open(self, runtime_context: Any) -> None:
        self.token = runtime_context.get_state(ValueStateDescriptor("token", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        token = uuid.uuid4().hex
        self.token.update(token)
        yield (value.n, value.k, value.sub, token)


class Keep(KeyedProcessFunction):
    """Keeps the token of each `n`; kills its executor once, in the middle of the second file."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def open(self, runtime_context: Any) -> None:
        self.token = runtime_context.get_state(ValueStateDescriptor("token", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if value.n >= 90 and once(self.marker):
            pid = executor()
            Path(self.marker).write_text(Path(f"/proc/{pid}/cmdline").read_text())
            os.kill(pid, signal.SIGKILL)
        self.token.update(value.token)
        return [(value.n, value.k, value.sub, value.token)]


def once(marker: str) -> bool:
    """Says yes to the first who asks, in whatever process."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def executor() -> int:
    """The JVM that this Python worker serves: parent of the daemon that forked it."""
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
    job = StreamJob("killed", root=str(folder / "root"), parallelism=2)
    stream = job.from_stream(support.Input(folder / "in").stream(spark))
    first = stream.key_by("n").process(Token(), FIRST, uid="first")
    first.sink_to(DeltaSink(str(folder / "first")), uid="first-out")
    second = first.key_by("n").process(Keep(str(folder / "killed")), FIRST, uid="second")
    second.sink_to(DeltaSink(str(folder / "second")), uid="second-out")
    client = support.run_all(job)
    print("epochs", len(client.epochs), "jobs", client.spark_jobs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
