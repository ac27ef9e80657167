"""`lakestate top`: one frame for pipes and programs, and a terminal that it gives back as it was."""

import os
import pty
import select
import subprocess
import sys
import termios

import pytest

from lakestate.commands.strips import heat_strip, spark_line


def test_one_frame(job) -> None:
    ended = job.run("top", "flights", "--once")
    assert ended.code == 0
    assert "epoch 1/4" in ended.out
    assert "checkpoint 1, 1 epochs behind" in ended.out
    assert "aircraft/legs" in ended.out
    assert job.run("top", "flights").code == 0  # no terminal: no loop either


def test_programs_get_the_numbers(job) -> None:
    found = job.run("top", "flights", "--json").json
    assert found["operators"][0]["records"] == [2, 1, 1, 2]
    assert found["status"]["epoch"] == 4
    assert {(one["uid"], one["state"], len(one["rows"])) for one in found["groups"]} == {
        ("aircraft", "count", 13),
        ("aircraft", "legs", 13),
        ("carrier", "seen", 13),
    }


def test_a_job_that_is_not_there_is_said_before_the_screen_is_taken(job) -> None:
    ended = job.run("top", "nope")
    assert (ended.code, ended.out) == (2, "")
    assert "NothingToRestoreError" in ended.err


def test_a_key_ends_it_and_the_terminal_is_as_before(job) -> None:
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
        os.write(master, b"xq")
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
