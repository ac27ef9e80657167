"""CPU and memory of an engine: its driver, JVM and Python workers, read from /proc while they run (Linux only).

An engine is started as the leader of a session of its own, and nothing in it leaves that session, so its processes are
those of the session, even when their parent has ended before them.
"""

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


class Process(NamedTuple):
    """One process at one moment: CPU seconds (with those of children that have ended) and resident bytes."""

    pid: int
    parent: int
    session: int
    cpu: float
    rss: int


class Sample(NamedTuple):
    """An engine at one moment.

    Attributes:
        at: Seconds since 1970.
        cpu: CPU seconds so far, of all processes that live or have been waited for.
        rss: Resident bytes. Pages that processes share count once for each.
        workers: Largest resident bytes so far of each live Python worker, by process id.
    """

    at: float
    cpu: float
    rss: int
    workers: Mapping[int, int]


def parse_stat(line: str) -> Process:
    """Returns a process from its line in /proc/<pid>/stat; the command in parentheses may hold anything."""
    head, _, tail = line.rpartition(")")
    fields = tail.split()
    ticks = sum(int(field) for field in fields[11:15])  # user and system, own and of waited-for children
    return Process(int(head.split("(", 1)[0]), int(fields[1]), int(fields[3]), ticks / TICKS, int(fields[21]) * PAGE)


def processes_of(session: int) -> list[Process]:
    """Returns the processes of a session that live."""
    found = (parse_stat(line) for name in os.listdir("/proc") if name.isdigit() and (line := _read(int(name), "stat")))
    return [process for process in found if process.session == session]


def cpu_of(session: int) -> float:
    """Returns the CPU seconds that a session has spent so far."""
    return sum(process.cpu for process in processes_of(session))


def end_session(session: int, patience: float = 30.0) -> None:
    """Waits until the processes of a session have ended, and kills those that have not when patience is over."""
    deadline = time.monotonic() + patience
    while left := processes_of(session):
        if time.monotonic() > deadline:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.1)


class SessionSampler:
    """Samples the processes of a session until it is told to stop.

    Args:
        session: The session, which has the process id of its leader.
        interval: Seconds between two samples.
    """

    def __init__(self, session: int, interval: float = 0.1) -> None:
        self.samples: list[Sample] = []
        self._session = session
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="session-sampler", daemon=True)

    def __enter__(self) -> "SessionSampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            at, found = time.time(), processes_of(self._session)
            if found:
                cpu, rss = sum(p.cpu for p in found), sum(p.rss for p in found)
                self.samples.append(Sample(at, cpu, rss, _workers(found)))


def cpu_between(samples: Sequence[Sample], start: float, end: float) -> float:
    """Returns the CPU seconds spent between two moments, interpolated between samples."""
    at, cpu = [s.at for s in samples], [s.cpu for s in samples]
    return float(np.interp(end, at, cpu) - np.interp(start, at, cpu))


def peak_rss_mb(samples: Sequence[Sample], end: float) -> float:
    """Returns the largest memory of an engine up to a moment, in MiB."""
    return max((s.rss for s in samples if s.at <= end), default=0) / MIB


def worker_peaks_mb(samples: Sequence[Sample], end: float) -> dict[int, float]:
    """Returns the largest memory of each Python worker up to a moment, in MiB, by process id."""
    peaks: dict[int, int] = {}
    for sample in samples:
        if sample.at <= end:
            for pid, rss in sample.workers.items():
                peaks[pid] = max(peaks.get(pid, 0), rss)
    return {pid: rss / MIB for pid, rss in sorted(peaks.items())}


def _workers(processes: Sequence[Process]) -> dict[int, int]:
    """Python workers are forked by a daemon that names their module, and keep its command line."""
    daemons = {p.pid for p in processes if "pyspark.worker" in _read(p.pid, "cmdline")}
    return {p.pid: _peak_rss(p) for p in processes if p.parent in daemons}


def _peak_rss(process: Process) -> int:
    """The kernel's own high-water mark misses nothing between two samples."""
    for line in _read(process.pid, "status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return process.rss


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""  # it ended in the meantime
