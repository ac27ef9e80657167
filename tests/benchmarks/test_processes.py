import os
import signal
import subprocess
import sys
import time

from benchmarks.processes import (
    MIB,
    PAGE,
    TICKS,
    Sample,
    SessionSampler,
    cpu_between,
    end_session,
    parse_stat,
    peak_rss_mb,
    processes_of,
    worker_peaks_mb,
)

SAMPLES = [
    Sample(10.0, 1.0, 100 * MIB, {7: 40 * MIB}),
    Sample(11.0, 3.0, 300 * MIB, {7: 50 * MIB, 8: 20 * MIB}),
    Sample(12.0, 3.5, 200 * MIB, {8: 90 * MIB}),
]


def test_a_stat_line_is_read_whatever_the_command_is_called() -> None:
    tail = "S 7 3 3 0 -1 0 0 0 0 0 100 50 30 20 20 0 1 0 999 4096 25 0"

    process = parse_stat(f"42 (odd) name (x) {tail}")

    assert (process.pid, process.parent, process.session) == (42, 7, 3)
    assert process.cpu == 200 / TICKS
    assert process.rss == 25 * PAGE


def test_cpu_is_interpolated_between_samples() -> None:
    assert cpu_between(SAMPLES, 10.5, 12.0) == 1.5


def test_memory_counts_until_the_last_epoch_ended() -> None:
    assert peak_rss_mb(SAMPLES, 10.9) == 100
    assert peak_rss_mb(SAMPLES, 12.0) == 300
    assert worker_peaks_mb(SAMPLES, 11.5) == {7: 50, 8: 20}
    assert worker_peaks_mb(SAMPLES, 12.0) == {7: 50, 8: 90}


def test_a_session_is_followed_and_ended() -> None:
    burn = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    process = subprocess.Popen([sys.executable, "-c", burn], start_new_session=True)
    with SessionSampler(process.pid, interval=0.02) as sampler:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and (not sampler.samples or sampler.samples[-1].cpu < 0.3):
            time.sleep(0.02)
    child = next(p.pid for p in processes_of(process.pid) if p.pid != process.pid)

    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [p.pid for p in processes_of(process.pid)] == [child], "an orphan stays in its session"
    end_session(process.pid, patience=0.0)

    assert sampler.samples[-1].cpu >= 0.3
    assert not any(p.rss for p in processes_of(process.pid)), "its entry may stay until init asks for its status"
    assert processes_of(os.getsid(0)) != []


def test_workers_are_the_children_of_a_daemon_whatever_its_module_is() -> None:
    fork = "import os, time; os.fork(); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", fork, "pyspark.worker"], start_new_session=True)
    try:
        with SessionSampler(process.pid, interval=0.02) as sampler:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and not (sampler.samples and sampler.samples[-1].workers):
                time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
        end_session(process.pid, patience=0.0)

    (peak,) = worker_peaks_mb(sampler.samples, time.time()).values()
    assert process.pid not in sampler.samples[-1].workers
    assert 1 < peak < 1000
