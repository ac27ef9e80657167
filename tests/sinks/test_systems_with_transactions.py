"""Sinks in systems with transactions: each epoch once, whatever dies, is unanswered, lost, or taken back."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from ledger import LedgerJob
from whole_job import BATCH, JOB, Died, ended_at

from state_engine.api.sinks import SinkMarker, SinkName
from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import (
    DamagedFileError,
    FencedError,
    MissingFileError,
    SinkAheadError,
    SinkError,
    SinkRewindError,
    StorageError,
)
from state_engine.log.birth import birth_number
from state_engine.log.paths import EPOCHS
from state_engine.savepoint.restore import JobRestore
from state_engine.spark.sinks.recorded import RecordedSinks

DRIVER = [point for point in CrashPoint if point.where == "driver" and point.name[:2] in ("E1", "E6", "E7", "E8")]
OUT = SinkName(JOB, "out")


@pytest.fixture
def job(tmp_path: Path) -> LedgerJob:
    return LedgerJob(tmp_path)


def numbers(batches: int) -> list[int]:
    return list(range(batches * BATCH))


def staged(job: LedgerJob, epoch: int, generation: int = 1) -> Path:
    [path] = (Path(job.root) / JOB / EPOCHS / f"g{generation:06d}").rglob(f"e{epoch:010d}-*-out.parquet")
    return path


@pytest.mark.parametrize("point", DRIVER, ids=lambda point: point.name)
def test_a_driver_that_dies_anywhere_loses_and_doubles_nothing(job: LedgerJob, point: CrashPoint) -> None:
    for epoch in (2, 5):
        ended_at(job, point, epoch, lambda driver: driver.steps(4))
    job.start().steps(2)
    assert job.ledger.rows == numbers(len(job.ledger.rows) // BATCH)
    assert len(job.ledger.rows) == job.start().offset


@pytest.mark.parametrize("fault", ["away", "unanswered"])
def test_a_commit_that_fails_is_decided_by_the_marker(job: LedgerJob, fault: str) -> None:
    driver = job.start().steps(1)
    job.ledger.faults = [fault, None, fault]
    driver.steps(3)
    assert job.ledger.rows == numbers(4)
    assert job.ledger.connections == 1


def test_a_system_that_stays_away_ends_the_driver_and_the_next_start_pays(job: LedgerJob) -> None:
    driver = job.start().steps(1)
    job.ledger.faults = ["away"] * 50
    with pytest.raises(
        SinkError, match=r"Sink 'out' of job 'job' cannot write to the ledger: ConnectionResetError: the"
    ):
        driver.step()
    assert job.ledger.connections == 0, "a connection is not used again after an error"
    job.ledger.faults = []
    assert job.ledger.rows == numbers(1)
    job.start()
    assert job.ledger.rows == numbers(2)


def test_a_start_without_the_system_writes_nothing(job: LedgerJob) -> None:
    job.ledger.away = True
    with pytest.raises(SinkError, match="cannot check the ledger: ConnectionRefusedError: nobody listens"):
        job.start()
    assert not list(Path(job.root).rglob("*.json"))
    job.ledger.away = False
    job.start().steps(1)
    before = job.log().epochs(1)
    job.ledger.away = True
    with pytest.raises(SinkError):
        job.start()
    assert job.log().epochs(1) == before


def test_a_late_driver_changes_nothing(job: LedgerJob) -> None:
    old = job.start().steps(2)
    new = job.start().steps(1)
    with pytest.raises(FencedError):
        old.step()
    sealed = job.log().read(1, 3)
    old.sinks.commit(sealed)
    assert job.ledger.rows == numbers(3)
    assert job.ledger.markers[OUT][1:] == (1, new._epochs.head.manifest.epoch)


def test_a_driver_that_has_lost_its_connection_asks_the_log_before_it_makes_another_one(job: LedgerJob) -> None:
    old = job.start().steps(1)
    job.ledger.faults = ["away"]
    sealed = job.log().read(1, 2)
    job.start()
    old.sinks.close()
    with pytest.raises(FencedError, match="has taken over after epoch 2 of generation 1"):
        old.sinks.commit(sealed)
    assert job.ledger.connections == 2 - 1, "the connection of the new driver"


def test_the_marker_has_the_birth_of_the_log_and_begins_at_no_epoch(job: LedgerJob) -> None:
    job.start()
    assert job.ledger.markers[OUT] == SinkMarker(birth_number(job.log().birth() or ""), 0, 0)


def test_output_that_would_be_abandoned_needs_keep_output(job: LedgerJob) -> None:
    job.start().steps(3)
    target, before = job.log().read(1, 2), job.log().generations()
    with pytest.raises(SinkRewindError, match="cannot retract the rows that the ledger got after epoch 2"):
        job.start(restore=target)
    assert job.log().generations() == before
    assert job.ledger.rows == numbers(3)
    job.start(restore=target, keep_output=True).steps(2)
    assert job.ledger.rows == [*numbers(3), *numbers(3)[BATCH:]]
    assert job.ledger.abandoned == numbers(3)[BATCH:]


def test_a_restore_of_the_newest_epoch_needs_no_permission(job: LedgerJob) -> None:
    old = job.start().steps(2)
    job.start(restore=job.log().read(1, 3)).steps(1)
    assert job.ledger.rows == numbers(3)
    assert job.ledger.markers[OUT].generation == 2
    assert job.ledger.abandoned == []
    old.sinks.commit(job.log().read(1, 3))
    assert job.ledger.rows == numbers(3)


@pytest.mark.parametrize("point", [CrashPoint.S2_CLOSED, CrashPoint.S3_REWOUND], ids=lambda point: point.name)
def test_a_restore_that_dies_is_finished_by_the_next_start(job: LedgerJob, point: CrashPoint) -> None:
    job.start().steps(3)
    target = job.log().read(1, 2)
    with pytest.raises(Died):
        job.start(restore=target, keep_output=True, dies_at=point, epoch=5 if point is CrashPoint.S2_CLOSED else 2)
    job.start().steps(1)
    assert job.ledger.rows == [*numbers(3), *numbers(2)[BATCH:]]


def test_a_root_that_was_removed_is_refused_until_the_rows_are_adopted(job: LedgerJob) -> None:
    job.start().steps(3)
    shutil.rmtree(job.root)
    with pytest.raises(
        SinkAheadError, match=r"Sink 'out' of job 'job': the ledger has its output up to epoch 4 of gen"
    ):
        job.start()
    assert not list(Path(job.root).rglob("*.json"))
    job.start(adopt_sinks=True).steps(1)
    job.start().steps(1)
    assert job.ledger.rows == [*numbers(3), *numbers(2)]


def test_another_log_that_wrote_meanwhile_is_noticed_at_the_commit(job: LedgerJob, tmp_path: Path) -> None:
    other = LedgerJob(tmp_path, "other", job.ledger)
    one, two = job.start(), other.start(adopt_sinks=True)
    two.step()
    with pytest.raises(SinkAheadError, match="another job that is also called 'job'"):
        one.step()
    assert job.ledger.rows == numbers(1)
    job.start(adopt_sinks=True).steps(1)
    assert job.ledger.rows == [*numbers(1), *numbers(2)], "what the other log refused is there once it is adopted"


def test_a_marker_that_was_lost_is_refused_by_a_start_and_by_a_running_driver(job: LedgerJob) -> None:
    driver = job.start().steps(2)
    kept = dict(job.ledger.markers)
    job.ledger.markers.clear()
    before = job.log().epochs(1)
    with pytest.raises(SinkAheadError, match="has no marker of this sink, although the job has written to it"):
        job.start()
    assert job.log().epochs(1) == before
    with pytest.raises(SinkAheadError, match="has lost the marker"):
        driver.step()
    assert job.ledger.rows == numbers(2)
    job.ledger.markers.update(kept)
    job.start().steps(1)
    assert job.ledger.rows == numbers(4)


def test_a_marker_that_was_lost_can_be_adopted(job: LedgerJob) -> None:
    job.start().steps(2)
    job.ledger.markers.clear()
    job.ledger.rows.clear()
    job.start(adopt_sinks=True).steps(1)
    assert job.ledger.rows == numbers(3)[BATCH:], "what the newest epoch staged, and what came after it"
    job.start().steps(1)
    assert job.ledger.rows == numbers(4)[BATCH:]


def test_a_system_that_has_gone_back_is_refused_by_a_running_driver_and_by_a_start(job: LedgerJob) -> None:
    driver = job.start().steps(2)
    backup = dict(job.ledger.markers), list(job.ledger.rows)
    driver.steps(3)
    job.ledger.markers, job.ledger.rows = dict(backup[0]), list(backup[1])
    with pytest.raises(SinkAheadError, match="has gone back from epoch 6 to epoch 3 of generation 1"):
        driver.step()
    before = job.log().epochs(1)
    with pytest.raises(SinkAheadError, match="has its output up to epoch 3 of generation 1, and the job has"):
        job.start()
    assert job.log().epochs(1) == before
    assert job.ledger.rows == numbers(2)
    job.start(restore=job.log().read(1, 3), keep_output=True, adopt_sinks=True).steps(1)
    assert job.ledger.rows == numbers(3)


def test_a_system_that_has_gone_back_may_be_adopted_and_gets_what_is_owed(job: LedgerJob) -> None:
    driver = job.start().steps(2)
    backup = dict(job.ledger.markers), list(job.ledger.rows)
    driver.steps(2)
    job.ledger.markers, job.ledger.rows = dict(backup[0]), list(backup[1])
    job.start(adopt_sinks=True).steps(1)
    assert job.ledger.rows == [n for n in numbers(5) if n // BATCH != 2], "the newest epoch, and what came after it"


def test_a_start_that_meets_the_commits_of_a_living_driver_takes_none_for_lost(
    job: LedgerJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = job.start().steps(2)
    newest, looks = look.newest, iter([5, 0, 0, 0, 0, 0, 0, 0])

    def while_the_driver_goes_on(log: Any) -> Any:
        old.steps(next(looks))
        return newest(log)

    monkeypatch.setattr("state_engine.epoch.start.look.newest", while_the_driver_goes_on)
    job.start().steps(1)
    assert job.ledger.rows == numbers(8)


@pytest.mark.parametrize("harm", ["manifests", "staged"])
def test_a_restore_that_keeps_output_does_not_need_what_it_abandons(job: LedgerJob, harm: str) -> None:
    job.start().steps(4)
    target = job.log().read(1, 2)
    with pytest.raises(Died):
        job.start(restore=target, keep_output=True, dies_at=CrashPoint.S2_CLOSED, epoch=6)
    if harm == "staged":
        for epoch in (3, 4, 5):
            staged(job, epoch).unlink()
    else:
        job.log()  # as retention does, behind the decision
        for path in (Path(job.root) / JOB / EPOCHS / "g000001").glob("e000000000[34].json"):
            path.unlink()
    job.start().steps(1)
    assert job.ledger.abandoned == []
    assert job.ledger.rows == [*numbers(4), *numbers(2)[BATCH:]]


@pytest.mark.parametrize("point", [CrashPoint.S1_HEAD_FOUND, CrashPoint.S2_BEFORE_CLAIM, CrashPoint.S2_CLAIMED])
def test_a_first_start_that_died_before_it_made_the_marker_is_no_loss(job: LedgerJob, point: CrashPoint) -> None:
    epoch = 0 if point is CrashPoint.S1_HEAD_FOUND else 1
    with pytest.raises(Died):
        job.start(dies_at=point, epoch=epoch)
    assert job.ledger.markers == {}
    job.start().steps(1)
    assert job.ledger.rows == numbers(1)


def test_staged_output_that_is_gone_is_named_and_can_be_left_out(job: LedgerJob) -> None:
    ended_at(job, CrashPoint.E6_SEALED, 3, lambda driver: driver.steps(2))
    staged(job, 3).unlink()
    before = job.log().epochs(1)
    with pytest.raises(MissingFileError, match="keep_output=True"):
        job.start()
    assert job.log().epochs(1) == before
    job.start(keep_output=True).steps(1)
    assert job.ledger.rows == [n for n in numbers(3) if n // BATCH != 1]


def test_a_bit_that_flipped_in_what_is_owed_reaches_no_system(job: LedgerJob) -> None:
    ended_at(job, CrashPoint.E6_SEALED, 3, lambda driver: driver.steps(2))
    path = staged(job, 3)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match=path.name):
        job.start()
    assert job.ledger.rows == numbers(1)


def test_a_sink_that_is_gone_while_output_is_owed_to_it_is_refused(job: LedgerJob) -> None:
    ended_at(job, CrashPoint.E6_SEALED, 3, lambda driver: driver.steps(2))
    job.address = "another ledger"
    with pytest.raises(
        SinkError, match="may still owe its output to sink 'out', the ledger, which is now another ledger"
    ):
        job.start()


def test_without_the_code_of_the_job_only_what_the_system_need_not_take_is_restored(job: LedgerJob) -> None:
    job.start().steps(3)
    ended_at(job, CrashPoint.E6_SEALED, 6, lambda driver: driver.steps(1))
    restore = JobRestore(job.root, JOB, "latest", RecordedSinks, validate=False)
    with pytest.raises(SinkError, match="a sink that only the code of the job has"):
        restore.run()
    job.start()
    assert job.ledger.rows == numbers(4)


def test_a_driver_that_is_refused_again_and_again_says_so(job: LedgerJob) -> None:
    driver = job.start().steps(1)
    job.ledger.faults = ["refused"] * 100
    with pytest.raises(StorageError, match="another driver had replaced the marker"):
        driver.step()
