"""The cause of a failure reaches the supervisor, `lakestate status` and REST, whatever it is and however long."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakestate.commands.status import _failure
from lakestate.plain_json import encode_plain
from lakestate.rest.ends import ended_operation
from lakestate.rest.operation_handlers import cause
from lakestate.rest.triggers import Ended, Key, Outcome
from lakestate.runner_events import Failed, Started, decode_event, encode_event, failed
from lakestate.supervision import StartRequest, Wanted, driver_folder, failure_of
from lakestate.supervision.log import last_words
from lakestate.supervision.records import WantedFile
from state_engine.errors import UserFunctionError

JOB = "flights"


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit


def author_failed(length: int) -> UserFunctionError:
    """Returns the error as the driver raises it: first the cause, then a traceback."""
    trace = "\nTraceback (most recent call last):\n" + "  File x\n" * (length // 9)
    return UserFunctionError(f"Operator 'total', subtask 0, failed in epoch 3: {trace}", action="Mend the function.")


FAILURES: list[tuple[BaseException, str]] = [
    (SystemExit(2), "SystemExit: 2"),
    (KeyboardInterrupt(), "KeyboardInterrupt: "),
    (Mute(), "Mute: <its str() raised SystemExit>"),
    (ValueError("half \ud800"), "ValueError: half \\ud800"),
    (ValueError("\x00" * 50_000), "ValueError: \\x00"),
    (author_failed(100), "UserFunctionError: Operator 'total', subtask 0, failed in epoch 3: "),
    (author_failed(900_000), "UserFunctionError: Operator 'total', subtask 0, failed in epoch 3: "),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = driver_folder(str(tmp_path), JOB)
    folder.mkdir(parents=True)
    wanted = Wanted(state="running", since=1, request=StartRequest(directory="/"))
    WantedFile(folder).write(wanted.with_start(1))
    return folder


def tell(folder: Path, *events: Any) -> None:
    (folder / "events").write_bytes(b"".join(map(encode_event, events)))


@pytest.mark.parametrize(("error", "said"), FAILURES, ids=lambda one: type(one).__name__)
def test_the_cause_reaches_the_supervisor_and_the_status(
    tmp_path: Path, folder: Path, error: BaseException, said: str
) -> None:
    tell(folder, Started(job=JOB, generation=1, epoch=1), failed(error))
    told = last_words(folder).cause
    assert told.startswith(said)
    assert told.endswith("What to do: Mend the function." if isinstance(error, UserFunctionError) else "the runner.")
    assert failure_of(str(tmp_path), JOB) == told

    file = WantedFile(folder)
    wanted = file.read()
    assert wanted is not None
    assert _failure(wanted, told, 1) == told
    file.write(wanted.with_end(told, 5))
    noted = failure_of(str(tmp_path), JOB)
    assert noted is not None
    assert noted.startswith(said)
    assert len(noted) <= 3_000


@pytest.mark.parametrize(("error", "said"), FAILURES, ids=lambda one: type(one).__name__)
def test_the_cause_is_returned_by_rest(error: BaseException, said: str) -> None:
    answer = cause(error)
    assert f": {said.removesuffix(': ')}" in answer.stack_trace
    assert len(answer.stack_trace) <= 10_000
    json.loads(encode_plain(answer))
    ended = ended_operation(Ended(Key("savepoint", "id", "id"), 1, Outcome(error=error)))
    assert len(ended.message or "") <= 8_000
    json.loads(encode_plain(ended))


def test_an_event_of_any_length_is_read(folder: Path) -> None:
    """Also an event of a release that did not limit its messages."""
    event = Failed(error="ValueError", message="begin" + "x" * 200_000, action="Look.")
    tell(folder, Started(job=JOB, generation=1, epoch=1), event)
    assert last_words(folder).event == event
    assert last_words(folder).cause.startswith("ValueError: beginxxx")
    assert last_words(folder).cause.endswith("What to do: Look.")
    assert len(last_words(folder).cause) <= 8_000


def test_the_last_line_of_a_log_keeps_its_class_and_its_end(folder: Path) -> None:
    (folder / "events").write_bytes(b"")
    (folder / "driver.log").write_bytes(b"one\nImportError: \xff" + b"x" * 40_000 + b" the end\n")
    told = last_words(folder).cause
    assert told.startswith("Its process ended before the job ran: ImportError: ")
    assert told.endswith("the end")
    assert len(told) < 600


def test_a_job_that_is_not_wanted_or_has_ended_in_order_has_not_failed(tmp_path: Path, folder: Path) -> None:
    assert failure_of(str(tmp_path), "another") is None
    tell(folder, failed(ValueError("no")))
    wanted = WantedFile(folder).read()
    assert wanted is not None
    WantedFile(folder).write(wanted.stopped(7))
    assert failure_of(str(tmp_path), JOB) is None


@pytest.mark.parametrize("text", ["half \ud800", {"name\udcff": ["\ud800"]}, [1, None, "plain"]])
def test_all_text_has_json(text: Any) -> None:
    json.loads(encode_plain(text))


def test_an_event_of_an_error_with_half_a_surrogate_pair_is_a_line() -> None:
    line = encode_event(Failed(error="E\ud800", message="m", action="a"))
    assert decode_event(line) == Failed(error="E\\ud800", message="m", action="a")
