"""The port of a job with a client that has no engine, and savepoints of a real log."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from lakestate.rest.client_control import ClientControl
from lakestate.rest.end_requests import JobEndedError
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import SavepointRequest, SourceView
from state_engine.api.checkpoint_config import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention
from state_engine.errors import EpochError, SavepointError, StorageError
from state_engine.log.paths import pin_path
from state_engine.savepoint import ProcessWriter, list_savepoints, resolve_restore
from state_engine.spark.driver.progress import EpochHistory, EpochSummary
from state_engine.spark.driver.source_lag import SourceLag
from state_engine.testing.sample_jobs import random_changes, sample_job

Kind = Literal["native", "canonical"]
NATIVE = SavepointRequest()


class Client:
    """A fake of a running job; `stop` does what the real one does, in the same order."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.head = log.head
        self.state = "RUNNING"
        self.history = EpochHistory(10)
        self.epochs_after = self.history.after
        self.checkpoints_under_way: tuple[Any, ...] = ()
        self.drain_error: Exception | None = None
        self.stops: list[bool] = []
        self.cancelled = False

    def source_lags(self) -> tuple[SourceLag, ...]:
        return (SourceLag("flights", 7, 2.5),)

    def cancel(self, *, before: Callable[[], None] | None = None) -> None:
        self.stop(before=before)
        self.cancelled = True

    def stop(self, *, drain: bool = False, before: Callable[[], None] | None = None) -> None:
        if before is not None:
            before()
        self.stops.append(drain)
        self.state = "CANCELED"
        if self.drain_error is not None:
            raise self.drain_error
        if drain:
            self.seal()

    def seal(self, records: int = 10, attempts: int = 1) -> None:
        self.head = self.log.epoch(random_changes(random.Random(1)))
        self.history.append(EpochSummary(self.head.manifest.epoch, "epoch", records, 0.5, attempts))


@pytest.fixture
def client(tmp_path: Path) -> Client:
    log = sample_job(str(tmp_path))
    log.epoch(random_changes(random.Random(0)))
    return Client(log)


def control_of(client: Client, config: CheckpointConfig | None = None, writer: Any = None) -> ClientControl:
    nodes = [SimpleNamespace(uid="aircraft", upstream=[]), SimpleNamespace(uid="carrier", upstream=[])]
    nodes[1].upstream = [(nodes[0], 0)]
    settings = SimpleNamespace(checkpoint_config=config or CheckpointConfig())
    job = SimpleNamespace(root=client.log.root, name="flights", operators=nodes, settings=settings)
    return ClientControl(job, client, lambda: 1_700_000_000_000, writer=writer)


class Asking:
    """Makes a request on a thread of its own, while the test runs on the thread that the job belongs to."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self.result: str | None = None
        self.error: Exception | None = None
        self._ask = ask
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._ask()
        except Exception as error:
            self.error = error

    def served_by(self, control: ClientControl) -> bool:
        """Serves until the answer has come; returns whether the request has ended the job."""
        ended = False
        while self._thread.is_alive():
            ended = control.serve() or ended
            self._thread.join(0.001)
        return ended


def epochs_of(client: Client) -> dict[str, int]:
    return {one.label or "asked": one.epoch for one in list_savepoints(client.log.root, "flights")}


def test_a_view_counts_what_was_sealed_since_the_start(client: Client) -> None:
    control = control_of(client)
    assert (control.view().epochs, control.view().records) == (0, 0)
    client.seal(10, attempts=0)  # a restore of key groups runs no task
    client.seal(20, attempts=3)
    view = control.view()
    assert view.sources == (SourceView("flights", 7, 2.5),)
    assert (view.epochs, view.records, view.epoch_seconds, view.retries) == (2, 30, 1.0, 2)
    assert (view.epoch, view.generation) == (client.head.manifest.epoch, 1)
    assert (view.job_id, view.state, view.end_ms) == (job_id("flights"), "RUNNING", -1)
    assert [(op.uid, op.upstream, op.parallelism) for op in view.operators] == [
        ("aircraft", (), 2),
        ("carrier", ("aircraft",), 2),
    ]


def test_a_savepoint_has_a_location_that_finds_it(client: Client, tmp_path: Path) -> None:
    location = control_of(client).trigger_savepoint(SavepointRequest("native", None))
    pin = list_savepoints(client.log.root, "flights")[0]
    assert location == f"file://{tmp_path}/flights/_savepoints/{pin.savepoint_id}"
    assert pin.trigger == "rest"


@pytest.mark.parametrize("kind", ["native", "canonical"])
@pytest.mark.parametrize("spelt", ["{}", "file:{}", "file://{}", "{}/"])
def test_a_savepoint_is_put_where_it_was_asked_to_be(client: Client, tmp_path: Path, kind: Kind, spelt: str) -> None:
    control, directory = control_of(client), tmp_path / "elsewhere"
    location = control.trigger_savepoint(SavepointRequest(kind, spelt.format(directory)))
    savepoint = list_savepoints(client.log.root, "flights")[0]
    assert location == f"file://{directory}/{savepoint.savepoint_id}"
    assert (directory / savepoint.savepoint_id / "_metadata").is_file()
    below_root = f"file://{tmp_path}/flights/_savepoints/{savepoint.savepoint_id}"
    assert control.savepoint_location(savepoint.savepoint_id) == (location if kind == "canonical" else below_root)
    restored = resolve_restore(client.log.root, "flights", location)
    assert restored.stored.hash == client.head.hash


@pytest.mark.parametrize("kind", ["native", "canonical"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_savepoint_is_disposed_of_by_its_location(
    client: Client, tmp_path: Path, kind: Kind, elsewhere: bool
) -> None:
    control, directory = control_of(client), tmp_path / "elsewhere"
    wanted = SavepointRequest(kind, str(directory) if elsewhere else None)
    kept = control.trigger_savepoint(wanted)
    gone = control.trigger_savepoint(wanted)
    copy = f"file://{tmp_path}/copy/{gone.rpartition('/')[2]}"
    assert not control.dispose(copy), "a copy belongs to its maker"
    assert control.dispose(gone)
    assert not control.dispose(gone)
    assert control.savepoint_location(gone.rpartition("/")[2]) is None
    left = [path.parent.name for path in directory.rglob("_metadata")]
    assert left == ([kept.rpartition("/")[2]] if elsewhere else [])
    assert [one.savepoint_id for one in list_savepoints(client.log.root, "flights")] == [kept.rpartition("/")[2]]


def test_a_damaged_savepoint_has_a_place_and_is_disposed_of_by_it(client: Client, tmp_path: Path) -> None:
    control = control_of(client)
    kept = control.trigger_savepoint(SavepointRequest("native", None))
    broken = control.trigger_savepoint(SavepointRequest("native", None)).rpartition("/")[2]
    pin = tmp_path / "flights" / pin_path(broken)
    pin.chmod(0o644)
    pin.write_bytes(b"{}")
    location = control.savepoint_location(broken)
    assert location == f"file://{pin.parent}"
    assert control.dispose(location)
    assert [one.savepoint_id for one in list_savepoints(client.log.root, "flights")] == [kept.rpartition("/")[2]]
    assert not pin.exists()


def test_a_savepoint_has_a_label_and_may_be_of_an_epoch_of_the_past(client: Client) -> None:
    before = client.head.manifest.epoch
    client.seal()
    control_of(client).trigger_savepoint(SavepointRequest(label="then", note="why", epoch=before))
    [pin] = list_savepoints(client.log.root, "flights")
    assert (pin.label, pin.note, pin.epoch) == ("then", "why", before)


def test_a_relative_directory_is_refused(client: Client) -> None:
    with pytest.raises(SavepointError, match="relative"):
        control_of(client).trigger_savepoint(SavepointRequest("canonical", "savepoints"))
    assert epochs_of(client) == {}


def test_a_stop_pins_the_epoch_that_the_job_ends_with(client: Client) -> None:
    control = control_of(client)
    client.seal()
    asking = Asking(lambda: control.stop(NATIVE, drain=False))
    assert asking.served_by(control)
    assert asking.error is None
    assert asking.result is not None
    assert client.stops == [False]
    assert not client.cancelled, "its checkpoints stay"
    assert epochs_of(client) == {"asked": client.head.manifest.epoch}
    assert control.view().state == "FINISHED"
    assert control.view().end_ms == 1_700_000_000_000
    assert control.view().sources == (), "nothing of a job that has ended asks Spark"


def test_a_cancel_with_savepoint_is_a_cancel(client: Client) -> None:
    control = control_of(client)
    asking = Asking(lambda: control.stop(NATIVE, drain=False, cancel=True))
    assert asking.served_by(control)
    assert client.cancelled
    assert len(epochs_of(client)) == 1
    assert control.view().state == "CANCELED"


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_runs_on_if_its_savepoint_fails(client: Client, drain: bool) -> None:
    control = control_of(client)
    asking = Asking(lambda: control.stop(SavepointRequest(directory="relative"), drain=drain))
    assert not asking.served_by(control)
    assert isinstance(asking.error, SavepointError)
    assert client.stops == []
    assert control.view().state == "RUNNING"
    assert [failure.facts.type for failure in control.failures()] == ["SavepointError"]
    again = Asking(lambda: control.stop(NATIVE, drain=drain))
    assert again.served_by(control)
    assert again.result is not None


def test_a_drain_into_a_directory_that_cannot_be_written_does_not_begin(client: Client, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    control = control_of(client)
    asking = Asking(lambda: control.stop(SavepointRequest("canonical", f"{tmp_path}/file/x"), drain=True))
    assert not asking.served_by(control)
    assert isinstance(asking.error, StorageError)
    assert client.stops == []
    assert epochs_of(client) == {}
    assert control.view().state == "RUNNING"


def test_a_drain_takes_a_savepoint_before_and_one_after(client: Client) -> None:
    control = control_of(client)
    before = client.head.manifest.epoch
    asking = Asking(lambda: control.stop(NATIVE, drain=True))
    assert asking.served_by(control)
    assert client.stops == [True]
    assert epochs_of(client) == {"before drain": before, "asked": before + 1}
    assert asking.result is not None
    newest = max(list_savepoints(client.log.root, "flights"), key=lambda pin: pin.epoch)
    assert asking.result.endswith(newest.savepoint_id)


def test_a_drain_that_fails_ends_the_job_and_is_reported(client: Client) -> None:
    control = control_of(client)
    client.drain_error = EpochError("A timer failed.")
    asking = Asking(lambda: control.stop(NATIVE, drain=True))
    assert asking.served_by(control)
    assert isinstance(asking.error, EpochError)
    assert control.view().state == "FAILED"
    assert [failure.text for failure in control.failures()] == ["A timer failed."]


def test_a_cancelled_job_is_cancelling_until_its_process_has_released_it(client: Client) -> None:
    control = control_of(client)
    control.cancel()
    assert control.view().state == "RUNNING", "it was not served yet"
    seen = []
    stop = client.stop

    def watched(**options: Any) -> None:
        stop(**options)
        seen.append(control.view().state)

    client.stop = watched  # type: ignore[method-assign]
    assert control.serve()
    assert seen == ["CANCELLING"], "Spark's query has ended, and the process still holds the job"
    assert client.cancelled
    assert control.view().state == "CANCELED"


@pytest.mark.parametrize(
    ("client_state", "until_then", "in_the_end"),
    [("FINISHED", "RUNNING", "FINISHED"), ("CANCELED", "CANCELLING", "CANCELED"), ("FAILED", "FAILING", "FAILED")],
)
def test_no_state_says_that_a_job_has_ended_before_its_process_says_so(
    client: Client, client_state: str, until_then: str, in_the_end: str
) -> None:
    control = control_of(client)
    client.state = client_state
    assert control.view().state == until_then
    control.ended(EpochError("It broke.") if client_state == "FAILED" else None)
    assert control.view().state == in_the_end


def test_nothing_ends_a_job_that_has_ended(client: Client) -> None:
    control = control_of(client)
    control.cancel()
    client.state = "FAILED"
    assert not control.serve(), "the waiting caller gets its failure"
    control.ended(EpochError("It broke."))
    with pytest.raises(JobEndedError):
        control.cancel()
    with pytest.raises(JobEndedError):
        control.stop(NATIVE, drain=False)


def test_a_caller_that_waits_to_end_a_job_learns_that_it_has_ended(client: Client) -> None:
    control = control_of(client)
    first = control._ends.ask("CANCELED")
    second = control._ends.ask("FINISHED", NATIVE)
    assert control.serve()
    assert first.result(0) is None
    with pytest.raises(JobEndedError):
        second.result(0)
    assert epochs_of(client) == {}


def test_a_location_is_looked_up_however_it_is_spelt(client: Client) -> None:
    control = control_of(client)
    location = control.trigger_savepoint(SavepointRequest("native", None))
    path = location.removeprefix("file://")
    for spelt in (location, path, f"file:{path}", f"{path}/", path.rpartition("/")[2]):
        assert control._savepoints.find(spelt) == path.rpartition("/")[2]
    for other in (f"{path}/../x", f"{path}x", ""):
        assert control._savepoints.find(other) is None
        assert not control.dispose(other)


def test_statistics_come_from_the_store(client: Client) -> None:
    control = control_of(client)
    control.trigger_savepoint(SavepointRequest("native", None))
    latest = control.checkpoints().latest.savepoint
    assert latest is not None
    assert latest.epoch == client.head.manifest.epoch


def test_settings_are_those_of_the_job(client: Client) -> None:
    assert control_of(client).settings().interval_ms is None
    config = CheckpointConfig().set_checkpoint_interval(500).set_min_pause_between_checkpoints(7)
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE).set_checkpoint_timeout(900)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION)
    config.set_max_concurrent_checkpoints(3).set_tolerable_checkpoint_failure_number(4)
    config.set_checkpoint_storage("memory")
    assert control_of(client, config).settings() == (
        *("at_least_once", 500, 900, 7, 3, 4, True),
        "JobManagerCheckpointStorage",
    )


def test_canonical_savepoints_are_folded_by_whom_the_runner_names(client: Client, tmp_path: Path) -> None:
    tables: list[str] = []

    class Noted(ProcessWriter):
        def write(self, fold: Any, plan: Any) -> Any:
            tables.append(plan.table)
            return super().write(fold, plan)

    control = control_of(client, writer=Noted())
    control.trigger_savepoint(SavepointRequest("native"))
    assert tables == []
    control.trigger_savepoint(SavepointRequest("canonical", str(tmp_path / "backup")))
    assert sorted(tables) == ["aircraft/count", "aircraft/legs", "carrier/seen"]


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (Mute(), "Mute: <its str() raised SystemExit>"),
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
    ],
)
def test_whatever_ends_a_job_is_reported_as_its_exception(client: Client, error: BaseException, told: str) -> None:
    control = control_of(client)
    control.ended(error)
    [failure] = control.failures()
    assert (failure.facts.type, failure.text) == (type(error).__name__, told)
