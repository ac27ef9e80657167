"""A subtask stays with the worker that has its state, and the job continues when that worker dies."""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Count, Input, assert_counts, count_job, run_all

pytestmark = pytest.mark.spark


class Tells(Count):
    """Writes a line per record: the process that received it."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Any:
        with open(f"{self.folder}/{self.subtask}", "a") as file:
            file.write(f"{os.getpid()}\n")
        return super().process_element(value, ctx)


class DiesOnce(Tells):
    """Ends its worker at one record, when it comes for the first time."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        told = Path(self.folder, "died")
        if value.n == 200 and not told.exists():
            told.write_text(str(os.getpid()))
            os._exit(7)
        return super().process_element(value, ctx)


def workers_of(folder: Path) -> dict[str, list[int]]:
    """Returns the processes of each subtask, in order, without repetitions in a row."""
    workers: dict[str, list[int]] = defaultdict(list)
    for file in folder.iterdir():
        for pid in map(int, file.read_text().split()):
            if workers[file.name][-1:] != [pid]:
                workers[file.name].append(pid)
    return workers


@pytest.fixture
def own_workers(spark, tmp_path: Path) -> Iterator[None]:
    """Makes Spark start new workers for this test: in those of other tests two partitions may already share one."""
    environment = spark.sparkContext.environment
    environment["LAKESTATE_TEST_WORKERS"] = str(tmp_path)
    yield
    del environment["LAKESTATE_TEST_WORKERS"]


@pytest.mark.long
@pytest.mark.usefixtures("own_workers")
@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_subtask_stays_with_its_worker(spark, tmp_path: Path, parallelism: int) -> None:
    """Three subtasks have two task slots. Which two run at the same time is random; the worker of each one is not."""
    root, source, told = tmp_path / "root", Input(tmp_path / "in").add_many(8, rows=60), tmp_path / "told"
    told.mkdir()
    job = count_job(source.stream(spark), root, "stays", function=Tells(told), parallelism=parallelism)
    run_all(job)
    assert_counts(root, "stays", source.all)
    workers = workers_of(told)
    assert len(workers) == parallelism
    assert all(len(pids) == 1 for pids in workers.values()), workers
    assert len({pids[0] for pids in workers.values()}) == parallelism


def test_a_worker_that_dies_takes_nothing_with_it(spark, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root, source, told = tmp_path / "root", Input(tmp_path / "in").add_many(6, rows=60), tmp_path / "told"
    told.mkdir()
    client = run_all(count_job(source.stream(spark), root, "dies", function=DiesOnce(told), parallelism=2))
    assert_counts(root, "dies", source.all)
    assert [epoch.attempts for epoch in client.epochs if epoch.kind == "epoch"] == [1, 1, 1, 2, 1, 1]
    [why] = [text for text in caplog.messages if "runs again" in text]
    assert why.startswith("Epoch 5 of job 'dies' runs again, for attempt 2: Spark gave up on epoch 5")
    assert "It exited with code 7." in why
    died = int((told / "died").read_text())
    (told / "died").unlink()
    workers = workers_of(told)
    assert any(died in pids for pids in workers.values())
    # Spark also ends the other task of that job, and so the other worker, unless that task is done.
    assert all(len(pids) <= 2 for pids in workers.values()), workers
