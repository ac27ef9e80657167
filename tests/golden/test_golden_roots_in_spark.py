"""Jobs that start from state roots of earlier releases: they go on, and restore both savepoints, on both backends.

Each root was moved by being unpacked, so its sources are allowed to be elsewhere, and its sinks keep their output.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import root_job
from deltalake import DeltaTable
from pyspark import cloudpickle
from root_archive import archive_of, unpack, versions
from root_rows import moments_of, states_at
from root_values import MOMENTS, SKETCHES, Truth, check_contents, content_of, estimates

from state_engine.api import EmbeddedRocksDBStateBackend
from state_engine.clock import SystemClock
from state_engine.inspect import open_job, read_state

pytestmark = pytest.mark.spark
FILES = MOMENTS["latest"] + 1
TIMERS = ("kinds", "_processing_time_timers")


class After2100(SystemClock):
    """A clock by which the root's timers of processing time are due."""

    def now_ms(self) -> int:
        return super().now_ms() + root_job.YEAR_2100 - 1_700_000_000_000


class Start(NamedTuple):
    """A start of the job from the root of a release."""

    version: str
    moment: str
    backend: str
    parallelism: int
    later: bool = False


def starts() -> Iterator[Any]:
    """Yields for each release: going on; in long runs both savepoints too, and each of the three on the other backend.

    `test_golden_roots.py` reads every row and state of the savepoints.
    """
    for version in versions():
        for moment, backend, parallelism in (
            ("latest", "rocksdb", 2),
            ("native", "heap", 1),
            ("canonical", "rocksdb", 2),
        ):
            later = moment == "canonical"
            yield pytest.param(
                Start(version, moment, backend, parallelism, later),
                id=f"{version}-{moment}-{backend}",
                marks=() if moment == "latest" else pytest.mark.long,
            )
            other = "heap" if backend == "rocksdb" else "rocksdb"
            yield pytest.param(
                Start(version, moment, other, 4, later), id=f"{version}-{moment}-{other}", marks=pytest.mark.long
            )


@pytest.fixture(autouse=True, scope="module")
def functions_travel_by_value() -> Iterator[None]:
    cloudpickle.register_pickle_by_value(root_job)
    yield
    cloudpickle.unregister_pickle_by_value(root_job)


@pytest.mark.parametrize("start", list(starts()))
def test_a_job_starts_from_it(spark: Any, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "golden"
    unpack(archive_of(start.version), folder)
    root, before = str(folder / "state"), output_of(folder)
    root_job.add_file(folder / "in", FILES - 1)
    if start.later:
        monkeypatch.setattr("state_engine.spark.driver.client.SystemClock", After2100)
    backend: Any = "heap"
    if start.backend == "rocksdb":
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths(str(tmp_path / "disk"))
    at = moments_of(root, root_job.NAME)[start.moment]
    waiting = waiting_timers(root, at)
    restore = None if start.moment == "latest" else at
    job = root_job.golden_job(spark, folder, state_backend=backend, files_per_epoch=FILES)
    client = job.start(
        available_now=True,
        restore=restore,
        parallelism=start.parallelism,
        allow_changed_sources=[0, 1],
        keep_output=True,
    )
    try:
        assert client.await_termination(240)
    finally:
        client.stop()
    [head, *_] = open_job(root, root_job.NAME).epochs()
    assert head.manifest.generation == (2 if restore is None else 3)
    assert {operator.parallelism for operator in head.manifest.operators.values()} == {start.parallelism}
    check_state(root, Truth(FILES), without={TIMERS} if start.later else set())
    if restore is None:
        check_pairs(folder)
    check_output(folder, before, waiting, MOMENTS[start.moment], later=start.later)


def check_state(root: str, truth: Truth, without: set[tuple[str, str]]) -> None:
    found = {}
    for schema in states_at(root, root_job.NAME, "latest"):
        rows = read_state(root, root_job.NAME, schema.uid, schema.name).to_pylist()
        found[schema.uid, schema.name] = content_of(rows, schema.shape)
    for state in SKETCHES:
        found["totals", state] = estimates(state, found["totals", state])
    check_contents(found, truth, without)


def check_output(folder: Path, before: "Counter[Any]", waiting: set[int], read: int, *, later: bool) -> None:
    """Checks the rows that came: those of the records after the restored epoch, and of the timers due since then."""
    came = output_of(folder)
    came.subtract(before)
    rows = {what: [row for row in came.elements() if row[2] == what] for what in ("record", "event", "processing")}
    first = read * root_job.PER_FILE
    assert min(came.values()) >= 0
    assert sorted(rows["record"]) == [row[:4] for row in Truth(FILES).records() if row[0] >= first]
    registered = waiting | set(range(first, FILES * root_job.PER_FILE))
    fired, still = [n for n, *_ in rows["event"]], waiting_timers(str(folder / "state"), "latest")
    assert sorted([*fired, *still]) == sorted(registered), "a timer was lost, or fired twice"
    due = {n for n, *_ in rows["processing"]}
    assert due >= set(range(first - 8, first)) if later else not due


def check_pairs(folder: Path) -> None:
    """Checks that records from before and after the start were joined, each pair once."""
    pairs = DeltaTable(str(folder / "out" / "near")).to_pyarrow_table().to_pylist()
    assert sorted((row["one"], row["other"]) for row in pairs) == sorted(Truth(FILES).pairs())


def waiting_timers(root: str, at: str) -> set[int]:
    """Returns the numbers of the records whose event-time timers have not fired."""
    rows = read_state(root, root_job.NAME, "kinds", "_event_time_timers", at=at).to_pylist()
    return {row["user_key"] // root_job.SECOND - 5 for row in rows}


def output_of(folder: Path) -> "Counter[Any]":
    rows = DeltaTable(str(folder / "out" / "kinds")).to_pyarrow_table().to_pylist()
    return Counter((row["n"], row["k"], row["what"], row["times"]) for row in rows)
