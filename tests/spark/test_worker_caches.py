"""Two workers, three subtasks, many epochs: each worker gets ranges that it has not served for a while."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import Count, Input, assert_counts, count_job, newest, run_all, state_of, wait_for, with_epochs

from state_engine.spark import MemorySink

pytestmark = pytest.mark.spark


class WhoAmI(Count):
    """Writes a file per process and opened instance."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        subtask = runtime_context.get_index_of_this_subtask()
        Path(self.folder, f"{os.getpid()}-{subtask}-{id(self)}").touch()


class Noted(Count):
    """Writes a file per instance that a worker opened, and one per instance that it closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self._note("opened")

    def close(self) -> None:
        self._note("closed")

    def _note(self, what: str) -> None:
        folder = Path(self.folder, what)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{os.getpid()}-{id(self)}").touch()


def noted(folder: Path, what: str) -> set[str]:
    """Returns the instances of workers, without those of the driver."""
    return {file.name for file in folder.glob(f"{what}/*") if not file.name.startswith(f"{os.getpid()}-")}


@pytest.mark.parametrize("epochs", [10, pytest.param(25, marks=pytest.mark.long)])
def test_results_are_exact_whichever_worker_runs_a_subtask(spark, tmp_path: Path, epochs: int) -> None:
    opened = tmp_path / "opened"
    opened.mkdir()
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(epochs, rows=30)
    function = WhoAmI(str(opened))
    run_all(count_job(source.stream(spark), root, "rotating", function=function, parallelism=3, max_parallelism=13))
    assert_counts(root, "rotating", source.all)
    driver = str(os.getpid())
    instances = [f.name for f in opened.iterdir() if not f.name.startswith(driver)]
    assert len(instances) < epochs, "each task loaded its state anew"
    source.add_many(4, rows=30)
    run_all(count_job(source.stream(spark), root, "rotating", function=function, parallelism=2, max_parallelism=13))
    assert_counts(root, "rotating", source.all)


def test_a_cache_without_room_is_slow_and_right(spark, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(3, rows=30)
    run_all(count_job(source.stream(spark), root, "no-room", parallelism=5, cache_bytes=1))
    assert_counts(root, "no-room", source.all)


@pytest.mark.long  # test_worker_cache_catch_up.py goes back and forth without Spark
@pytest.mark.parametrize(
    "there",
    [("epoch:1/3", "epoch:1/2"), pytest.param(("epoch:1/3", "epoch:1/2", "epoch:2/5"), marks=pytest.mark.long)],
    ids=len,
)
def test_back_and_forth_in_one_session(spark, tmp_path: Path, there: tuple[str, ...]) -> None:
    """Workers have newer state of the same ranges each time."""
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(3, rows=30)

    def job() -> Any:
        return count_job(source.stream(spark), root, "forth", parallelism=3, max_parallelism=13)

    run_all(job())
    for back in there:
        run_all(job(), restore=back)
        assert_counts(root, "forth", source.all)
    assert newest(root, "forth").generation == 1 + len(there)


def test_fields_of_a_function_are_not_state_and_do_not_leak_into_a_restore(spark, tmp_path: Path) -> None:
    """The instance that served the abandoned epochs is not used again."""

    class Remembers(Count):
        def open(self, runtime_context: Any) -> None:
            super().open(runtime_context)
            self.seen: dict[Any, int] = {}

        def process_element(self, value: Any, ctx: Any) -> Any:
            [(n, k, count)] = super().process_element(value, ctx)
            before = self.seen.get(k)
            assert before is None or before < count, f"{k} was {before} already, and is {count}"
            self.seen[k] = count
            return [(n, k, count)]

    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(3, rows=30)
    run_all(count_job(source.stream(spark), root, "fields", function=Remembers()))
    run_all(count_job(source.stream(spark), root, "fields", function=Remembers()), restore="epoch:1/2")
    assert_counts(root, "fields", source.all)
    assert len(MemorySink("fields").rows()) == len(source.all)
    assert sum(state_of(root, "fields", "count", "count").values()) == len(source.all)


def test_a_job_begins_anew_where_its_root_was_removed(spark, tmp_path: Path) -> None:
    """The workers have read manifests under the same names."""
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(2, rows=30)
    run_all(count_job(source.stream(spark), root, "anew", parallelism=2))
    shutil.rmtree(root)
    source.add_many(1, rows=30)
    run_all(count_job(source.stream(spark), root, "anew", parallelism=2))
    assert_counts(root, "anew", source.all)
    assert newest(root, "anew").generation == 1


def test_workers_release_a_job_that_has_ended_and_no_other(spark, tmp_path: Path) -> None:
    source, ended, going_on = Input(tmp_path / "in").add_many(3, rows=30), tmp_path / "ended", tmp_path / "going on"
    client = count_job(source.stream(spark), tmp_path / "root", "going-on", function=Noted(going_on)).start()
    with_epochs(client, 3, of_input=True)
    run_all(count_job(source.stream(spark), tmp_path / "root", "ended", function=Noted(ended)))
    opened = noted(ended, "opened")
    assert opened

    def closed() -> bool:
        root = tmp_path / f"root-{len(list(tmp_path.iterdir()))}"
        run_all(count_job(source.stream(spark), root, "another"))  # its tasks tell the workers
        return noted(ended, "closed") >= opened

    wait_for(closed, "instances of a job that has ended to be closed")
    assert noted(going_on, "opened")
    assert not noted(going_on, "closed")
    client.stop()
    assert_counts(tmp_path / "root", "going-on", source.all)
