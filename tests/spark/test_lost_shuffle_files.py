"""Spark loses the files between two operators and runs the first one again, which gives another result.

The first operator is not deterministic, as in `executor_job.py`, where executors die. The epoch is a mix of two
attempts if one subtask of the second operator has read the first attempt, and another one reads the second attempt.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import executor_job
import pytest
from executor_job import FIRST, SWITCHES, Token, once, watched
from pyspark import cloudpickle
from support import Input, by_n, state_of

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
SECOND_FILE = 60
"""The number of its first record."""


class LosesFiles(KeyedProcessFunction):
    """Keeps the token of each record; removes Spark's shuffle files once, in the second epoch.

    Subtask 0 removes them, and subtask 1 waits for that. Both have read all of their input by then. Subtask 2 begins
    when one of them has ended, because Spark has two cores, and finds nothing to read.

    Args:
        files: The folders in which Spark's block manager stores its files.
        marker: A file that exists once they were removed.
    """

    def __init__(self, files: list[str], marker: Path) -> None:
        self.files, self.marker = files, str(marker)

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.token = runtime_context.get_state(ValueStateDescriptor("token", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if value.n >= SECOND_FILE:
            if self.subtask == 0 and once(f"{self.marker}-asked"):
                for folder in self.files:
                    for path in Path(folder).glob("*/shuffle_*"):
                        path.unlink()
                Path(self.marker).touch()
            deadline = time.monotonic() + 60
            while self.subtask == 1 and not Path(self.marker).exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
        self.token.update(value.token)
        return [(value.n, value.k, value.sub, value.token)]


@pytest.fixture
def shuffle_folders(spark: Any) -> Iterator[list[str]]:
    """The folders of Spark's shuffle files; Spark's own comparison of two attempts is switched off."""
    cloudpickle.register_pickle_by_value(executor_job)
    before = {switch: spark.conf.get(switch) for switch in SWITCHES}
    for switch in SWITCHES:
        spark.conf.set(switch, "false")
    manager = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager()
    yield list(manager.localDirsString())
    for switch, value in before.items():
        spark.conf.set(switch, value)
    cloudpickle.unregister_pickle_by_value(executor_job)


def test_no_epoch_is_a_mix_of_attempts(spark: Any, tmp_path: Path, shuffle_folders: list[str]) -> None:
    source, root = Input(tmp_path / "in").add_many(3, rows=SECOND_FILE), tmp_path / "root"
    job = StreamJob("lost", root=str(root), parallelism=3)
    first = job.from_stream(source.stream(spark)).key_by("n").process(Token(), FIRST, uid="first")
    first.sink_to(MemorySink("first"), uid="first-out")
    second = first.key_by("n").process(LosesFiles(shuffle_folders, tmp_path / "lost"), FIRST, uid="second")
    second.sink_to(MemorySink("second"), uid="second-out")
    answers: list[tuple[int, str]] = []
    watched(job, answers)
    assert (tmp_path / "lost").exists()
    assert answers == [(2, "SUCCESS"), (3, "INCONSISTENT"), (3, "SUCCESS"), (4, "SUCCESS")]
    rows = by_n(MemorySink("first").rows())
    assert [row[0] for row in rows] == list(range(180))
    assert by_n(MemorySink("second").rows()) == rows
    tokens = {n: token for n, _, _, token in rows}
    assert state_of(root, "lost", "first", "token", key="n") == tokens
    assert state_of(root, "lost", "second", "token", key="n") == tokens
