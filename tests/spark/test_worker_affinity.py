"""A subtask stays with the worker that holds its state, and the job goes on when that worker dies."""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Count, Input, assert_counts, count_job, run_all

pytestmark = pytest.mark.spark


class Tells(Count):
    """Leaves a line per record: the process that had it."""

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
    """Ends its worker at one record, the first time that it comes."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        told = Path(self.folder, "died")
        if value.n == 200 and not told.exists():
            told.write_text(str(os.getpid()))
            os._exit(7)
        return super().process_element(value, ctx)


def workers_of(folder: Path) -> dict[str, list[int]]:
    """Returns the processes of each subtask, in order, each once where it follows itself."""
    found: dict[str, list[int]] = defaultdict(list)
    for file in folder.iterdir():
        for pid in map(int, file.read_text().split()):
            if found[file.name][-1:] != [pid]:
                found[file.name].append(pid)
    return found


@pytest.fixture
def own_workers(spark, tmp_path: Path) -> Iterator[None]:
    """Has Spark start workers for this test alone: in those of other tests two partitions may share one already."""
    environment = spark.sparkContext.environment
    environment["LAKESTATE_TEST_WORKERS"] = str(tmp_path)
    yield
    del environment["LAKESTATE_TEST_WORKERS"]


@pytest.mark.long
@pytest.mark.usefixtures("own_workers")
@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_subtask_stays_with_its_worker(spark, tmp_path: Path, parallelism: int) -> None:
    """Three subtasks have two task slots; which two run at a time is chance, which worker each has is not."""
    root, source, told = tmp_path / "root", Input(tmp_path / "in").add_many(8, rows=60), tmp_path / "told"
    told.mkdir()
    job = count_job(source.stream(spark), root, "stays", function=Tells(told), parallelism=parallelism)
    run_all(job)
    assert_counts(root, "stays", source.all)
    workers = workers_of(told)
    assert len(workers) == parallelism
    assert all(len(pids) == 1 for pids in workers.values()), workers
    assert len({pids[0] for pids in workers.values()}) == parallelism


def test_a_worker_that_dies_takes_nothing_with_it(spark, tmp_path: Path) -> None:
    root, source, told = tmp_path / "root", Input(tmp_path / "in").add_many(6, rows=60), tmp_path / "told"
    told.mkdir()
    run_all(count_job(source.stream(spark), root, "dies", function=DiesOnce(told), parallelism=2))
    assert_counts(root, "dies", source.all)
    died = int((told / "died").read_text())
    (told / "died").unlink()
    workers = workers_of(told)
    assert any(died in pids for pids in workers.values())
    # Spark ends the other task of that job, too, and so the other worker, unless it is through with it.
    assert all(len(pids) <= 2 for pids in workers.values()), workers
