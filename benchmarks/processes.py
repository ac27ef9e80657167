"""CPU and memory of an engine: its driver, JVM and Python workers, read from /proc while they run (Linux only).

An engine is started as the leader of a new session, and none of its processes leaves that session. So its processes are
those of the session, even after their parent has ended.
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
        cpu: CPU seconds so far, of all processes that are alive or have been waited for.
        rss: Resident bytes. A page that processes share counts once for each of them.
        workers: Largest resident bytes so far of each live Python worker, by process id.
    """

    at: float
    cpu: float
    rss: int
    workers: Mapping[int, int]


def parse_stat(line: str) -> Process:
    """Returns a process from its line in /proc/<pid>/stat; the command in parentheses may contain any characters."""
    head, _, tail = line.rpartition(")")
    fields = tail.split()
    ticks = sum(int(field) for field in fields[11:15])  # user and system, with waited-for children
    return Process(int(head.split("(", 1)[0]), int(fields[1]), int(fields[3]), ticks / TICKS, int(fields[21]) * PAGE)


def processes_of(session: int) -> list[Process]:
    """Returns the live processes of a session."""
    live = (parse_stat(line) for name in os.listdir("/proc") if name.isdigit() and (line := _read(int(name), "stat")))
    return [process for process in live if process.session == session]


def cpu_of(session: int) -> float:
    """Returns the CPU seconds that a session has spent so far."""
    return sum(process.cpu for process in processes_of(session))


def end_session(session: int, patience: float = 30.0) -> None:
    """Waits until all processes of a session have ended; kills those that remain after `patience` seconds.

    One without memory has ended: only its entry is left, until its parent, which may be the system's first process,
    asks for its status.
    """
    deadline = time.monotonic() + patience
    while remaining := [process for process in processes_of(session) if process.rss]:
        if time.monotonic() > deadline:
            for process in remaining:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.1)


class SessionSampler:
    """Samples the processes of a session until the `with` block ends.

    Args:
        session: Id of the session, which is the process id of its leader.
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
            now, processes = time.time(), processes_of(self._session)
            if processes:
                cpu, rss = sum(p.cpu for p in processes), sum(p.rss for p in processes)
                self.samples.append(Sample(now, cpu, rss, workers_of(processes)))


def cpu_between(samples: Sequence[Sample], start: float, end: float) -> float:
    """Returns the CPU seconds spent between two moments, interpolated between samples."""
    times, cpu = [s.at for s in samples], [s.cpu for s in samples]
    return float(np.interp(end, times, cpu) - np.interp(start, times, cpu))


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


def workers_of(processes: Sequence[Process]) -> dict[int, int]:
    """Returns the peak memory of Python workers: children of a daemon with their module in its command line."""
    daemons = {p.pid for p in processes if "pyspark.worker" in _read(p.pid, "cmdline")}
    return {p.pid: _peak_rss(p) for p in processes if p.parent in daemons}


def _peak_rss(process: Process) -> int:
    """Returns the kernel's high-water mark, which misses no peak between two samples."""
    for line in _read(process.pid, "status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return process.rss


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""  # the process has ended
