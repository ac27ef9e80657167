"""`lakestate restore`: whole jobs, key groups, dry runs, refusals, and the end by a signal."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakestate.control import Endpoint, publish_endpoint
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import JobView
from lakestate.rest.server import serve
from state_engine.clock import SystemClock
from state_engine.errors import UnknownOperatorError
from state_engine.inspect import open_job, read_state
from state_engine.key_groups import key_group_of
from state_engine.log.records import Origin
from state_engine.savepoint import KeyGroupRestore, trigger_savepoint
from state_engine.testing.changes import model_of
from state_engine.testing.sample_jobs import COUNT

WHOLE = ("restore", "flights", "--without-code")


def files_of(job: Any) -> dict[str, bytes]:
    """Returns all but control files: the lock names the last holder of the job."""
    paths = (path for path in Path(job.root).rglob("*") if path.is_file() and "_control" not in path.parts)
    return {str(path): path.read_bytes() for path in paths}


def counts(job: Any) -> dict[Any, Any]:
    return model_of(COUNT, read_state(job.root, "flights", "aircraft", "count"))


def test_a_stopped_job_goes_back(job) -> None:
    ended = job.run(*WHOLE, "--from", "epoch:1/1")
    assert ended.code == 0
    assert "Restored epoch 1/1 of job 'flights' into job 'flights', which was at epoch 1/4." in ended.out
    assert "The job is now at epoch 2/2" in ended.out
    assert counts(job) == job.builder.models[1, 1]["aircraft", "count"]


def test_after_a_clock_that_was_ahead_a_job_goes_on_with_the_time_of_this_machine(job) -> None:
    ahead = job.builder
    ahead.now_ms = SystemClock().now_ms() + 86_400_000
    ahead.epoch()
    ended = job.run(*WHOLE, "--from", "latest", "--reset-processing-time", "--json")
    assert ended.code == 0
    sealed = ahead.log.read(*ended.json["sealed"]).manifest
    assert abs(sealed.processing_time - SystemClock().now_ms()) < 60_000


def test_into_other_key_groups_as_json(job) -> None:
    ended = job.run(*WHOLE, "--from", "checkpoint:1", "--max-parallelism", "128", "--parallelism", "3", "--json")
    assert ended.code == 0
    assert ended.json["sealed"] == [2, 4]
    assert ended.json["source"]["rewrite"] == {"uids": {}, "max_parallelism": 128, "left": []}
    for row in read_state(job.root, "flights", "aircraft", "count").to_pylist():
        assert row["key_group"] == key_group_of([row["tailnum"]], ["string"], 128)
    assert counts(job) == job.builder.models[1, 3]["aircraft", "count"]


def test_a_dry_run_writes_nothing(job) -> None:
    before = files_of(job)
    ended = job.run(*WHOLE, "--from", "latest", "--max-parallelism", "128", "--dry-run")
    assert ended.code == 0
    assert "Would restore epoch 1/4" in ended.out
    assert "count (keyed): 2 rows" in ended.out
    assert "re-keyed" in ended.out
    assert files_of(job) == before


def test_the_code_of_a_registered_job_is_compared_with_the_state(job) -> None:
    """The job that is registered under this name has other operators than the one that wrote this state."""
    before = files_of(job)
    ended = job.run("restore", "flights", "--from", "latest", "--dry-run")
    assert ended.code == 1
    assert "Refused: " in ended.out
    ended = job.run("restore", "flights", "--from", "latest")
    assert ended.code in (1, 2)
    assert "What to do" in ended.err
    assert files_of(job) == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--from", "sp-none"), 2, "NothingToRestoreError"),
        (("--from", "latest", "--uid-mapping", "planes=aircraft"), 2, "UnknownOperatorError"),
        (("--from", "latest", "--uid-mapping", "planes"), 2, "OLD=NEW"),
        (("--from", "latest", "--key-groups", "x"), 2, "is not A-B"),
        (("--from", "latest", "--key-groups", "1-2", "--max-parallelism", "7"), 2, "--max-parallelism"),
        (("--from", "latest", "--operator", "aircraft"), 2, "goes with"),
        (("--from", "latest", "--key-groups", "77"), 1, "no key group 77"),
        ((), 2, "--from"),
    ],
)
def test_what_is_refused(job, arguments: tuple[str, ...], code: int, says: str) -> None:
    before = files_of(job)
    ended = job.run(*WHOLE, *arguments)
    assert ended.code == code
    assert says in ended.err
    assert files_of(job) == before


def test_renamed_operators(job) -> None:
    ended = job.run(*WHOLE, "--from", "latest", "--uid-mapping", "aircraft=planes", "--max-parallelism", "128")
    assert ended.code == 0, ended.err
    assert "planes, which was aircraft" in ended.out
    head = open_job(job.root, "flights").newest()
    assert head is not None
    assert set(head.manifest.operators) == {"planes", "carrier"}


def test_a_claimed_savepoint_goes(job) -> None:
    pin = trigger_savepoint(job.root, "flights")
    assert job.run(*WHOLE, "--from", pin.savepoint_id, "--claim").code == 0
    assert "sp-" not in job.run("savepoints", "list", "flights").out


def test_key_groups_and_keys_of_a_stopped_job(job) -> None:
    ended = job.run(
        "restore", "flights", "--from", "epoch:1/1", "--key", "N1", "--operator", "aircraft", "--dry-run", "--json"
    )
    assert ended.code == 0, ended.err
    assert ended.json["sealed"] is None
    assert job.run("restore", "flights", "--from", "epoch:1/1", "--key", "N1", "--operator", "aircraft").code == 0
    now, then = job.builder.models[1, 4]["aircraft", "count"], job.builder.models[1, 1]["aircraft", "count"]
    entry = (("N1",), None, None)
    assert counts(job) == {**now, entry: then[entry]}
    assert job.run("restore", "flights", "--from", "epoch:1/1", "--key-groups", "0-12").code == 0
    assert counts(job) == then
    composite = ("--key", '["UA", 2013]', "--operator", "carrier")
    assert job.run("restore", "flights", "--from", "epoch:1/2", *composite).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_the_job_as_it_was(job, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The signal comes while files are copied."""
    from state_engine.savepoint import rekey

    before, regrouped, times = files_of(job), rekey.regrouped, []

    def interrupted(*arguments: Any) -> Any:
        times.append(1)
        if len(times) == 2:
            os.kill(os.getpid(), number)
        return regrouped(*arguments)

    monkeypatch.setattr(rekey, "regrouped", interrupted)
    ended = job.run(*WHOLE, "--from", "latest", "--max-parallelism", "128")
    assert ended.code == 1
    assert "RestoreCancelledError" in ended.err
    assert len(times) == 2
    assert files_of(job) == before


# A running job ------------------------------------------------------------------------------------------------------


class Job:
    """Records its requests; raises `error` if it is set."""

    job_id = job_id("flights")

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.error: Exception | None = None

    def view(self) -> JobView:
        return JobView(
            job_id=self.job_id, name="flights", state="RUNNING", start_ms=0, end_ms=-1, now_ms=0, changed_ms=0,
            since_ms={}, incarnation="abc", generation=1, epoch=4, epochs=4, records=4, epoch_seconds=1.0, operators=(),
        )  # fmt: skip

    def restore_key_groups(self, source: Any, ranges: Any, keys: Any, uids: Any, *, dry_run: bool) -> KeyGroupRestore:
        self.asked.append((source, ranges, keys, uids, dry_run))
        if self.error is not None:
            raise self.error
        origin = Origin(job="flights", generation=1, epoch=2, manifest="h")
        return KeyGroupRestore(
            job="flights", source=origin, onto=4, operators=(), states=(), sealed=None if dry_run else (1, 5)
        )


@pytest.fixture
def running(job) -> Iterator[Job]:
    fake, published, over = Job(), threading.Event(), threading.Event()
    with serve([fake]) as server:
        endpoint = Endpoint(url=server.url, pid=os.getpid(), incarnation="abc")

        def hold() -> None:
            with publish_endpoint(job.root, "flights", endpoint):
                published.set()
                over.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        assert published.wait(10)
        yield fake
        over.set()
        thread.join(10)


def test_a_running_job_is_asked_for_key_groups(job, running: Job) -> None:
    ended = job.run("restore", "flights", "--from", "epoch:1/2", "--key-groups", "0-3", "--key-groups", "7")
    assert ended.code == 0, ended.err
    assert "Took state of epoch 2" in ended.out
    ended = job.run("restore", "flights", "--from", "sp-1", "--key", "N1", "--key", '["a", 1]', "--dry-run", "--json")
    assert ended.code == 0
    assert ended.json["sealed"] is None
    assert running.asked == [
        ("epoch:1/2", [(0, 3), (7, 7)], None, None, False),
        ("sp-1", None, ["N1", ("a", 1)], None, True),
    ]
    running.error = UnknownOperatorError("There is none.", action="Look.")
    ended = job.run("restore", "flights", "--from", "sp-1", "--key", "N1", "--operator", "x")
    assert ended.code == 1
    assert "UnknownOperatorError: There is none." in ended.err


def test_a_running_job_elsewhere_is_asked_by_its_address(job) -> None:
    fake, part = Job(), ("restore", "flights", "--from", "epoch:1/2", "--key-groups", "0-3")
    with serve([fake]) as server:
        before = files_of(job)
        asked = job.run(*part, "--url", server.url, "--json")
        assert (asked.code, asked.json["sealed"]) == (0, [1, 5])
        assert job.run(*part, "--url", server.url, "--root", "s3://bucket/state", "--dry-run").code == 0
        assert [one[-1] for one in fake.asked] == [False, True]
        whole = job.run(*WHOLE, "--from", "latest", "--url", server.url)
        assert (whole.code, "Stop it first" in whole.err) == (1, True)
        assert files_of(job) == before
    gone = job.run(*part, "--url", server.url)
    assert (gone.code, "RunnerUnreachableError" in gone.err) == (1, True)
    assert job.run(*WHOLE, "--from", "latest", "--url", server.url).code == 0, "no process answers there any more"


def test_neither_root_nor_address_is_wrong_use(job) -> None:
    for extra in ((), ("--url", "http://127.0.0.1:1")):
        ended = job._replace(root="").run(*WHOLE, "--from", "latest", *extra)
        assert (ended.code, "--root" in ended.err) == (2, True)


def test_a_running_job_is_not_restored_as_a_whole(job, running: Job) -> None:
    before = files_of(job)
    ended = job.run(*WHOLE, "--from", "latest")
    assert ended.code == 1
    assert "Stop it first" in ended.err
    assert job.run(*WHOLE, "--from", "latest", "--dry-run").code == 0
    assert files_of(job) == before
    assert running.asked == []
