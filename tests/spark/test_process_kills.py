"""Real processes, killed by SIGKILL at crash points of the protocol, then started again: results are exact.

Each chain is one job that dies several times, at different points, with new input each time. `make test` runs the chain
that dies when one of its three sinks has an epoch's output and the others lack it. `tests/epoch` crashes the same
protocol at every point, without processes.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import crash_job
import pytest
from branches import Branches, check_state, expected
from enrichment import check_enriched
from support import Folders, Input, assert_tally, newest, outputs, run_all, table_rows

from state_engine.spark.worker.kill_at import CRASH_AT

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCRIPT = Path(__file__).with_name("crash_job.py")

SHORT = ["E7_SINK_COMMITTED"]
CHAINS = [
    ["E4_OPERATED", "E5_BEFORE_CHANGE_FILE", "E5_CHANGE_FILE_WRITTEN"],
    ["E5_OUTPUT_STAGED", "E5_ACKED", "E6_ACKS_HELD"],
    ["E6_BEFORE_PUT", "E6_SEALED", "E7_BEFORE_SINK_COMMIT", "S2_CLAIMED"],  # a claim after an epoch that owes output
    ["E7_SINK_COMMITTED", "E7_COMMITTED", "E8_BEFORE_RETURN"],
    ["E9_PUBLISH_BEGUN", "E9_TABLE_COMMITTED", "E9_BASE_WRITTEN"],
    ["S4_SEEDED", "S5_STARTED"],
]
long_chains = [pytest.param(chain, marks=pytest.mark.long) for chain in CHAINS]


def run(folder: Path, *arguments: str, crash_at: str | None = None) -> None:
    """Runs the job in a new process, and expects it to die if `crash_at` is given."""
    environment = {k: v for k, v in os.environ.items() if k != CRASH_AT}
    if crash_at:
        environment[CRASH_AT] = crash_at
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    expected = -signal.SIGKILL if crash_at else 0
    assert done.returncode == expected, f"{crash_at}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chain", [SHORT, *long_chains], ids="-".join)
def test_killed_and_started_again(spark: Any, tmp_path: Path, chain: list[str]) -> None:
    source = Input(tmp_path / "in")
    for point in chain:
        source.add_many(2, rows=50)
        head = newest(tmp_path / "root", "crash")
        epoch = head.epoch + 3 if head is not None else 2  # after its claim, in the second file that it reads
        run(tmp_path, crash_at=f"{point}@*" if point[0] == "S" or point[:2] == "E9" else f"{point}@{epoch}")
    source.add_many(1, rows=50)
    run_all(crash_job.tally(spark, tmp_path))
    assert_tally(tmp_path / "root", "crash", outputs(tmp_path / "out"), source.all)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_restore_that_dies_is_resumed(tmp_path: Path) -> None:
    """It dies before the closing manifest, between that and the sinks, or between the sinks and the new generation."""
    source = Input(tmp_path / "in").add_many(3, rows=50)
    run(tmp_path)
    source.add_many(1, rows=50)
    restore = ("--restore", "epoch:1/2", "--parallelism", "3")
    for point, kind in (("S2_BEFORE_CLOSING", "epoch"), ("S2_CLOSED", "closing"), ("S3_REWOUND", "closing")):
        run(tmp_path, *restore, crash_at=f"{point}@*")
        assert newest(tmp_path / "root", "crash").kind == kind
    run(tmp_path, *restore)
    assert newest(tmp_path / "root", "crash").generation == 2
    assert_tally(tmp_path / "root", "crash", outputs(tmp_path / "out"), source.all)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_job_that_dies_while_it_is_rescaled_was_rescaled_or_was_not(tmp_path: Path) -> None:
    """Without another setting, the next start has the parallelism of the sealed epoch."""
    source, root = Input(tmp_path / "in"), tmp_path / "root"
    for point, asked, parallelism in (
        ("E5_ACKED", 3, 2),
        ("E6_SEALED", 4, 4),
        ("E6_BEFORE_PUT", 3, 4),
        ("E8_BEFORE_RETURN", 1, 1),
    ):
        source.add_many(2, rows=50)
        head = newest(root, "crash")
        run(tmp_path, "--rescale", str(asked), crash_at=f"{point}@{head.epoch + 2 if head is not None else 2}")
        assert {operator.parallelism for operator in newest(root, "crash").operators.values()} == {parallelism}, point
    source.add_many(1, rows=50)
    run(tmp_path)
    assert {operator.parallelism for operator in newest(root, "crash").operators.values()} == {1}
    assert_tally(root, "crash", outputs(tmp_path / "out"), source.all)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_job_of_two_sources_that_is_killed_goes_on_in_both(tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    for point, files in (("E5_ACKED", (3, 0)), ("E6_SEALED", (1, 2)), ("S4_SEEDED", (1, 1))):
        folders.add(*files)
        head = newest(tmp_path / "root", "crash")
        epoch = head.epoch + 2 if head is not None else 3
        run(tmp_path, "--connected", crash_at=f"{point}@*" if point[0] == "S" else f"{point}@{epoch}")
    folders.add(1, 1)
    run(tmp_path, "--connected", "--parallelism", "3")
    check_enriched(tmp_path / "root", "crash", folders, table_rows(str(tmp_path / "out")))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_job_of_branches_that_is_killed_gives_each_output_once(tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in"), tmp_path / "root"
    for point in ("E5_ACKED", "E7_SINK_COMMITTED"):
        source.add_many(2, rows=50)
        head = newest(root, "crash")
        run(tmp_path, "--branches", crash_at=f"{point}@{head.epoch + 2 if head is not None else 2}")
    source.add_many(1, rows=50)
    run(tmp_path, "--branches", "--parallelism", "3")
    outputs = Branches(*(table_rows(str(tmp_path / "out" / output)) for output in Branches._fields))
    assert outputs == expected(source.all)
    check_state(root, "crash", source.all)
