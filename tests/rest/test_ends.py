"""The process writes how its operations ended, and this can be read after its end."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakestate.control import find_endpoint
from lakestate.rest.bodies import stop_with_savepoint
from lakestate.rest.ends import EndedOperation, find_end, keep_ends
from lakestate.rest.routes import JOB, ROUTES
from lakestate.rest.triggers import Ended, Key, Outcome
from lakestate.runner import controlled
from lakestate.running_job import _RESULTS, RunningJob, outcome_of
from state_engine.errors import SavepointError
from state_engine.savepoint import SavepointRequest, list_savepoints
from state_engine.testing.sample_jobs import random_changes, sample_job

FIRST, SECOND = "1" * 32, "2" * 32


def ended(trigger_id: str, outcome: Outcome) -> Ended:
    return Ended(Key("savepoint", "j", trigger_id), 7, outcome)


def test_the_ends_of_the_newest_process_are_kept_and_no_others(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert find_end(root, "flights", FIRST) is None
    keep_ends(root, "flights", "one", [ended(FIRST, Outcome("file:///there"))])
    keep_ends(root, "flights", "one", [])  # as a process does that ends twice
    assert find_end(root, "flights", FIRST) == EndedOperation(
        kind="savepoint", trigger_id=FIRST, ended_at=7, result="file:///there"
    )
    failed = ended(SECOND, Outcome(error=SavepointError("The disk is full.", action="Make room.")))
    keep_ends(root, "flights", "two", [failed])
    assert find_end(root, "flights", FIRST) is None
    end = find_end(root, "flights", SECOND)
    assert end is not None
    assert (end.error, end.message, end.action) == ("SavepointError", "The disk is full.", "Make room.")
    keep_ends(root, "flights", "three", [])
    assert list((tmp_path / "flights" / "_control").iterdir()) == []


def test_a_damaged_document_says_nothing(tmp_path: Path) -> None:
    keep_ends(str(tmp_path), "flights", "one", [ended(FIRST, Outcome())])
    (tmp_path / "flights" / "_control" / "ends-one.json").write_bytes(b"{")
    assert find_end(str(tmp_path), "flights", FIRST) is None


def test_the_command_line_asks_for_every_kind_of_operation_on_a_job() -> None:
    asked_for = {
        route.path.split("/")[3] for route in ROUTES if route.path.endswith("/{triggerid}") and JOB in route.path
    }
    assert set(_RESULTS) == asked_for


class Client:
    """A running job that can be stopped."""

    def __init__(self, head: Any) -> None:
        self.head = head
        self.state = "RUNNING"

    def epochs_after(self, epoch: int) -> list[Any]:
        return []

    def source_lags(self) -> tuple[Any, ...]:
        return ()

    def stop(self, *, drain: bool = False, before: Callable[[], None] | None = None) -> None:
        if before is not None:
            before()
        self.state = "CANCELED"


@pytest.mark.parametrize("fails", [False, True])
def test_the_runner_writes_how_it_was_stopped(tmp_path: Path, fails: bool) -> None:
    log = sample_job(str(tmp_path))
    log.epoch(random_changes(random.Random(0)))
    client, definition = Client(log.head), SimpleNamespace(session=None)
    job = SimpleNamespace(root=log.root, name="flights", operators=[], definition=definition)
    stop = threading.Event()
    stop.set()  # no caller waits for an answer
    with controlled(job, client, stop, host="127.0.0.1", port=0, token=None) as control:
        running = RunningJob(log.root, "flights")
        wanted = SavepointRequest(directory="relative" if fails else None, label="last")
        trigger_id = running.begin("stop", body=stop_with_savepoint(wanted))
        while outcome_of(log.root, "flights", trigger_id) is None:
            control.serve()
        assert running.goes_on() == fails
    assert find_endpoint(log.root, "flights") is None
    end = outcome_of(log.root, "flights", trigger_id)
    assert end is not None
    if fails:
        assert end.error == "SavepointError"
    else:
        [taken] = list_savepoints(log.root, "flights")
        assert taken.label == "last"
        assert str(end.result).endswith(taken.savepoint_id)
