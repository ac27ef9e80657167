"""On a cluster each subtask stays on the executor that has its state; with one process nothing changes."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from branches import Branches, expected
from locality_job import BRANCHED, KILLED_IN, ROWS
from support import Input, assert_tally, count_job, outputs, state_of, table_rows, truth
from test_one_spark_job_per_epoch import Work

from state_engine.spark.plan.preferred_locations import preferred_locations

SCRIPT = Path(__file__).with_name("locality_job.py")
EPOCHS = 12

pytestmark = [pytest.mark.spark]
on_cluster = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the executor through /proc"),
    pytest.mark.timeout(600),
]


class Ran:
    """Files that the jobs on the cluster wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.source = Input(folder / "in").add_many(EPOCHS, rows=ROWS)

    def report(self, job: str) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.folder / f"{job}.json").read_text())
        return report

    def places(self, job: str, uid: str) -> dict[int, dict[int, set[int]]]:
        """Returns the executors of a subtask in an epoch: `{subtask: {number of the file: {process}}}`."""
        executors: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for file in (self.folder / job / "told").glob(f"{uid}-*"):
            subtask = int(file.name.rpartition("-")[2])
            for line in file.read_text().splitlines():
                epoch, executor, _ = map(int, line.split())
                executors[subtask][epoch].add(executor)
        return executors


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Runs all jobs in one cluster, because its start takes longer than the jobs."""
    ran = Ran(tmp_path_factory.mktemp("locality"))
    command = [sys.executable, str(SCRIPT), str(ran.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False, cwd=ran.folder)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return ran


def only(found: dict[int, set[int]]) -> int:
    """Returns the one executor that a subtask had."""
    (executor,) = set[int]().union(*found.values())
    return executor


class TestOnACluster:
    pytestmark = on_cluster

    @pytest.mark.parametrize("uid", ["tally", "totals"])
    def test_a_subtask_stays_with_its_executor(self, ran: Ran, uid: str) -> None:
        places = ran.places("stays", uid)
        assert sorted(places) == [0, 1]
        assert {epoch for executors in places.values() for epoch in executors} == set(range(EPOCHS))
        assert only(places[0]) != only(places[1])

    def test_three_subtasks_share_two_executors(self, ran: Ran) -> None:
        executors = [only(of_subtask) for of_subtask in ran.places("branched", "tally").values()]
        assert len(executors) == 3
        assert len(set(executors)) == 2

    @pytest.mark.parametrize("job", ["stays", "anywhere", "killed"])
    def test_output_and_state_are_right(self, ran: Ran, job: str) -> None:
        assert_tally(ran.root, job, outputs(ran.folder / job), ran.source.all)

    def test_output_and_state_of_branches_are_right(self, ran: Ran) -> None:
        outputs = Branches(*(table_rows(str(ran.folder / "branched" / output)) for output in Branches._fields))
        rows = ran.source.all[: BRANCHED * ROWS]
        assert outputs == expected(rows)
        assert state_of(ran.root, "branched", "tally", "times") == truth(rows).states["times"]

    @pytest.mark.parametrize(
        ("job", "epochs", "stages"), [("stays", EPOCHS, 3), ("anywhere", EPOCHS, 3), ("branched", BRANCHED, 7)]
    )
    def test_an_epoch_is_one_spark_job_without_a_stage_more(self, ran: Ran, job: str, epochs: int, stages: int) -> None:
        report = ran.report(job)
        works = [Work(*work) for work in report["works"]]
        assert report["epochs"] == len(works) == epochs
        assert {(work.stages, work.skipped_stages, work.failed_tasks) for work in works} == {(stages, 0, 0)}

    def test_of_a_killed_executor_only_its_own_subtasks_move(self, ran: Ran) -> None:
        victim = int((ran.folder / "victim").read_text())
        places = ran.places("killed", "tally")
        before = {subtask: only({n: places[subtask][n] for n in range(KILLED_IN)}) for subtask in places}
        after = {subtask: only({n: places[subtask][n] for n in range(KILLED_IN + 1, EPOCHS)}) for subtask in places}
        (moved,) = [subtask for subtask, executor in before.items() if executor == victim]
        assert after[1 - moved] == before[1 - moved]
        assert after[moved] not in before.values()


def test_nothing_is_preferred_where_there_is_one_process(spark) -> None:
    assert preferred_locations(spark, "local") is None


@pytest.mark.parametrize("wanted", [True, False])
def test_a_job_says_whether_it_has_preferred_locations(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started, wanted: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("state_engine.spark.driver.client.preferred_locations", lambda _, job: asked.append(job))
    source = Input(tmp_path / "in").add_many(1, rows=5)
    job = count_job(source.stream(spark), tmp_path / "root", "asks", preferred_locations=wanted)
    started(job.start())
    assert asked == (["asks"] if wanted else [])
