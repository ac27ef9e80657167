"""`lakestate top`: one frame for pipes and programs, and a terminal that is restored at the end."""

import io
import os
import pty
import select
import signal
import subprocess
import sys
import termios

import pytest
from rich.console import Console, Group
from rich.text import Text

from lakestate.commands.strips import heat_strip, spark_line
from lakestate.commands.top import _watch, frame
from lakestate.running_job import Process
from state_engine.errors import MissingFileError
from state_engine.inspect.activity import JobActivity, OperatorActivity, StateGroups
from state_engine.inspect.status import JobStatus, OperatorStatus
from state_engine.inspect.view import StateSize


def test_one_frame(job) -> None:
    ended = job.run("top", "flights", "--once")
    assert ended.code == 0
    assert "epoch 1/4" in ended.out
    assert "checkpoint 1, 1 epoch behind" in ended.out
    assert "aircraft/legs" in ended.out
    assert job.run("top", "flights").code == 0  # no terminal: no loop either


def test_programs_get_the_numbers(job) -> None:
    printed = job.run("top", "flights", "--json").json
    assert printed["operators"][0]["records"] == [2, 1, 1, 2]
    assert printed["status"]["epoch"] == 4
    assert {(one["uid"], one["state"], len(one["rows"])) for one in printed["groups"]} == {
        ("aircraft", "count", 13),
        ("aircraft", "legs", 13),
        ("carrier", "seen", 13),
    }


def test_a_job_that_is_not_there_is_said_before_the_screen_is_taken(job) -> None:
    ended = job.run("top", "nope")
    assert (ended.code, ended.out) == (2, "")
    assert "NothingToRestoreError" in ended.err


@pytest.mark.parametrize("keys", [b"xq", b"\x1b", None])
def test_a_key_ends_it_and_the_terminal_is_as_before(job, keys: bytes | None) -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    command = [sys.executable, "-m", "lakestate.cli", "top", "flights", "--root", job.root, "--interval", "0.1"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    try:
        seen = b""
        while seen.count(b"aircraft/count") < 2:  # it draws again by itself
            assert select.select([master], [], [], 60)[0], seen
            seen += os.read(master, 65536)
        os.write(master, b"\x1b[A" if keys is None else keys)
        if keys is None:  # an arrow does nothing; Ctrl-C ends it as q does
            seen = b""
            while seen.count(b"aircraft/count") < 2:
                assert select.select([master], [], [], 60)[0], seen
                seen += os.read(master, 65536)
            process.send_signal(signal.SIGINT)
        while process.poll() is None:
            if select.select([master], [], [], 0.1)[0]:
                os.read(master, 65536)
        assert process.returncode == 0
        assert termios.tcgetattr(slave)[:4] == before[:4]
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)


def test_a_look_that_fails_is_said_and_does_not_end_it() -> None:
    looks = 0

    def look() -> Group:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise MissingFileError("The file is gone.", action="Look again.")
        if looks == 4:
            signal.raise_signal(signal.SIGINT)
        return Group(Text(f"look {looks}"))

    screen = io.StringIO()
    _watch(Console(file=screen, force_terminal=True, width=80), look, 0.01)
    said = [screen.getvalue().find(one) for one in ("look 1", "MissingFileError: The file is gone.", "look 3")]
    assert -1 < said[0] < said[1] < said[2]


@pytest.mark.parametrize(
    ("values", "width", "strip"),
    [
        ([], 8, ""),
        ([0, 0], 8, "··"),
        ([1, 8, 4, 0], 8, "▂█▅·"),
        ([0, 9, 0, 0, 1, 0], 3, "█·▁"),
        ([1, 2, 3], 2, "▃█"),
    ],
)
def test_heat_is_by_the_largest_of_a_cell(values: list[float], width: int, strip: str) -> None:
    assert heat_strip(values, width).plain == strip


def test_a_line_has_the_newest_values() -> None:
    assert spark_line([100, 0, 4, 8], 3) == "·▅█"
    assert spark_line([], 3) == ""
    assert spark_line([0, 0], 3) == "··"


def operator(uid: str, parallelism: int, watermark: int | None) -> OperatorStatus:
    return OperatorStatus(
        uid=uid, parallelism=parallelism, max_parallelism=128, rescaled_from=None, watermark=watermark,
        input_ended=False, event_time_lag_ms=None if watermark is None else 65_000, records_in=0, records_out=0,
    )  # fmt: skip


def busy(watermark: int | None) -> JobActivity:
    """Returns a job with the longest possible figures."""
    uids = ("count-per-aircraft", "total")
    status = JobStatus(
        job="flights", url="/state/flights", generation=12, epoch=1_234_567, kind="epoch", sealed_at=0,
        incarnation="abc", incarnation_number=3, operators=tuple(operator(uid, 16, watermark) for uid in uids),
        states=tuple(
            StateSize(uid=uid, state="legs", keys=12_345_678, rows=123_456_789, log_rows=1, bytes=12 << 30)
            for uid in uids
        ),
        sinks=(), checkpoint=None, epochs_behind=1_234_567, savepoints=0, newest_savepoint=None,
    )  # fmt: skip
    return JobActivity(
        status=status,
        epochs_per_s=12.5,
        operators=tuple(OperatorActivity(uid=uid, records=tuple(range(40)), records_per_s=1_234_567.0) for uid in uids),
        groups=tuple(StateGroups(uid=uid, state="legs", rows=tuple(range(128)), skew=17.3) for uid in uids),
    )


@pytest.mark.parametrize("watermark", [None, 1_700_000_000_000])
@pytest.mark.parametrize("width", [80, 100, 160])
def test_nothing_is_cut_off_where_there_is_room(width: int, watermark: int | None) -> None:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    with console.capture() as capture:
        console.print(frame(busy(watermark), 42_000, width, Process("http://x", 4_194_304, "abc", "driver")))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in capture.get()
    assert len(lines) == 12, "no line is wrapped"
    assert "epoch 12/1234567, 42.0 s ago · process 4194304" in lines[0]
    said = capture.get()
    for figure in ("1,234,567", "12,345,678", "123,456,789", "12 GiB", "17.3"):
        assert figure in said
    if watermark is not None:
        assert "22:13:20Z  1 min 5 s" in said
        assert ("2023-11-14 22:13:20Z" in said) == (width > 80)
