"""Ctrl-C while `lakestate restore` reads or copies from a slow disk: in a process of its own, as a person runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from state_engine.testing.changes import put

SOON_S = 5.0
MAIN = """
import sys, time
from state_engine.storage.local import LocalStorage

def slow(name):
    call = getattr(LocalStorage, name)
    def slowed(storage, path, *given):
        if path.endswith((".arrow", ".parquet")) and "_checkpoints" not in path:
            sys.stderr.write(f"touches {path}\\n")  # in one piece: several threads do this
            time.sleep(1.0)
        return call(storage, path, *given)
    setattr(LocalStorage, name, slowed)

for name in ("get", "get_range", "put_exclusive", "put_if_absent"):
    slow(name)
from lakestate.cli import app
app()
"""
COUNT = ("aircraft", "count")


def files_of(job: Any) -> dict[str, bytes]:
    """Returns all but control files: the lock names the last holder of the job."""
    paths = (path for path in Path(job.root).rglob("*") if path.is_file() and "_control" not in path.parts)
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    "options",
    [("--without-code",), ("--without-code", "--max-parallelism", "128"), ("--key-groups", "0-12")],
    ids=["whole", "re-keyed", "key-groups"],
)
def test_ctrl_c_ends_it_soon_and_leaves_the_job_as_it_was(job: Any, options: tuple[str, ...]) -> None:
    for number in range(10):
        job.builder.epoch({COUNT: [put(f"N{n}", number) for n in range(20)]})
    before = files_of(job)
    command = [sys.executable, "-c", MAIN, "restore", "flights", "--from", "epoch:1/13", "--root", job.root, *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as ours:
        try:
            assert ours.stderr is not None
            assert [ours.stderr.readline().split()[0] for _ in range(2)] == ["touches", "touches"]
            ours.send_signal(signal.SIGINT)
            pressed = time.monotonic()
            _, err = ours.communicate(timeout=60)
        finally:
            ours.kill()
    assert time.monotonic() - pressed < SOON_S
    assert ours.returncode == 1
    assert "RestoreCancelledError" in err
    assert "Traceback" not in err
    assert files_of(job) == before
