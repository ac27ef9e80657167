"""The feeder writes input at a steady rate: from where it stopped, nothing twice, and it reports the end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from lakestate.examples.files import newest_number
from lakestate.up.feeder import SOURCES, Feeder, Source, run
from lakestate.up.layout import Layout


def part(number: int) -> pa.Table:
    return pa.table({"n": [number]})


def numbers(folder: Path) -> list[int]:
    return [pyarrow.parquet.read_table(path)["n"][0].as_py() for path in sorted(folder.glob("*.parquet"))]


class Told(list[str]):
    """Records messages."""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def test_each_beat_brings_one_file_more_for_each_source(layout: Layout) -> None:
    feeder = Feeder(layout, {"a": Source(part, None), "b": Source(part, 2)}, print)
    for _ in range(3):
        feeder.feed()
    assert numbers(layout.input("a")) == [1, 2, 3]
    assert numbers(layout.input("b")) == [1, 2]


def test_another_feeder_goes_on_where_the_first_one_stopped(layout: Layout) -> None:
    sources = {"a": Source(part, None)}
    Feeder(layout, sources, print).feed()
    (layout.input("a") / ".a-00002.parquet.part").write_bytes(b"half of a file, as a killed one leaves it")
    Feeder(layout, sources, print).feed()
    assert numbers(layout.input("a")) == [1, 2]
    assert not list(layout.input("a").glob(".*"))


def test_the_end_is_reported_once(layout: Layout) -> None:
    told = Told()
    feeder = Feeder(layout, {"b": Source(part, 1)}, told.append)
    for _ in range(4):
        feeder.feed()
    assert told == ["b: the input has ended after 1 files."]


def test_a_full_disk_is_reported_and_tried_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    feeder = Feeder(layout, {"a": Source(part, None), "b": Source(part, None)}, told.append)
    feeder.feed()

    def full(table: pa.Table, path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pyarrow.parquet, "write_table", full)
        feeder.feed()
    assert [line.partition(":")[0] for line in told] == ["a", "b"]
    assert "No space" in told[0]
    feeder.feed()
    assert numbers(layout.input("a")) == numbers(layout.input("b")) == [1, 2]


def test_it_feeds_at_once_and_ends_in_the_middle_of_a_pause(layout: Layout) -> None:
    stop = threading.Event()
    feeder = Feeder(layout, {"a": Source(part, None)}, print)
    thread = threading.Thread(target=run, args=([feeder.feed], 3_600, stop))
    thread.start()
    while not newest_number(layout.input("a"), "a"):
        time.sleep(0.02)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert numbers(layout.input("a")) == [1]


def feeding(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lakestate.up.feeder", "--folder", str(folder), "--every", "0.1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.slow
def test_the_examples_are_fed_by_a_process_that_may_be_killed(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for ending, files in ((signal.SIGKILL, 5), (signal.SIGTERM, 10)):
        with feeding(tmp_path) as process:
            while min(newest_number(layout.input(job), job) for job in SOURCES) < files:
                assert process.poll() is None, process.stdout and process.stdout.read()
                time.sleep(0.05)
            os.kill(process.pid, ending)
            assert process.wait(20) == (0 if ending is signal.SIGTERM else -ending)
    for job, source in SOURCES.items():
        paths = sorted(layout.input(job).glob("*.parquet"))
        expected = pa.concat_tables(source.read_part(number) for number in range(1, len(paths) + 1))
        assert pa.concat_tables(pyarrow.parquet.read_table(path) for path in paths).equals(expected)


@pytest.mark.slow
def test_two_feeders_of_one_folder_do_not_meet(tmp_path: Path) -> None:
    with feeding(tmp_path) as first:
        while not newest_number(Layout(tmp_path).input("orders"), "orders"):
            assert first.poll() is None
            time.sleep(0.05)
        second = feeding(tmp_path)
        output, _ = second.communicate(timeout=60)
        assert second.returncode == 1
        assert b"BusyError" in output
        first.terminate()
