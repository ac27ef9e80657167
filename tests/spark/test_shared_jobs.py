"""Whatever a job contains goes on after a restore and a restart, at other parallelisms and on the other backend."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from inspect import isabstract
from pathlib import Path
from typing import Any

import pytest
from shared_jobs import STARTS, Part, Ran, Start, branched, connected, declared, functions, keys, sources, states, steps
from support import Input, run_all, wait_for

from state_engine.api import EmbeddedRocksDBStateBackend, HashMapStateBackend
from state_engine.spark import StreamJob

pytestmark = pytest.mark.spark

JOBS: list[Any] = [branched, connected, declared, functions, keys, sources, states, steps]
ENDING = (declared, states)
"""Jobs whose last start reads bounded sources to their end."""


def parts_of(job: Any) -> list[type[Part]]:
    return [
        kind
        for kind in vars(job).values()
        if isinstance(kind, type)
        and issubclass(kind, Part)
        and kind.__module__ == job.__name__
        and not isabstract(kind)
    ]


def build(parts: list[Part], folder: Path, start: Start) -> StreamJob:
    """Builds the job for a start."""
    backend: Any = HashMapStateBackend()
    if start.backend == "rocksdb":
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths(str(folder / "disk"))
        backend.get_memory_configuration().set_fixed_memory_per_slot("8mb")
    job = StreamJob(
        folder.name,
        root=str(folder / "root"),
        parallelism=start.parallelism,
        max_parallelism=13,
        state_backend=backend,
        operator_chaining=start.chaining,
        data_inline_threshold=2500,  # so changes are in manifests and in files
        heartbeat_interval_ms=60_000,  # no idle epochs in between
    )
    for part in parts:
        part.build(job, start)
    return job


class Running:
    """A job in all its starts, and what was wrong with each part after which start."""

    def __init__(self, spark: Any, folder: Path, kinds: list[type[Part]], ends: bool) -> None:
        self.folder = folder
        self.shared = Input(folder / "shared")
        self.parts = [kind(spark, folder / kind.__name__, self.shared) for kind in kinds]
        self.asks_delta = sources.SeveralKinds in kinds  # Spark reads a Delta table's log by jobs of its own
        self.faults: dict[type[Part], list[tuple[int, Exception]]] = {kind: [] for kind in kinds}
        for start in STARTS:
            try:
                self.run(start if ends else replace(start, ends=False))
            except Exception as error:
                self.faults = {kind: [*faults, (start.number, error)] for kind, faults in self.faults.items()}
                return

    def run(self, start: Start) -> None:
        self.shared.add_many(start.files)
        for part in self.parts:
            part.add(start)
        client = run_all(build(self.parts, self.folder, start), restore=start.restore)
        if not self.asks_delta:
            attempts = [epoch.attempts for epoch in client.epochs if epoch.kind == "epoch"]
            wait_for(
                lambda: client.spark_jobs == sum(attempts),
                f"one job in Spark's books for each attempt at a batch: {attempts}",
                20,
            )
            assert sum(attempts) <= len(attempts) + 1, "epochs run again only if something fails"
        ran = Ran(self.folder / "root", self.folder.name, start)
        assert ran.manifest.generation == (2 if start.number else 1)
        for part in self.parts:
            try:
                part.check(ran)
            except Exception as error:  # the other parts are checked nevertheless
                self.faults[type(part)].append((start.number, error))
        shutil.rmtree(self.folder / "disk", ignore_errors=True)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Running]:
    """Runs a job when the first test of its parts comes."""

    @cache
    def run(job: Any) -> Running:
        return Running(spark, tmp_path_factory.mktemp(job.__name__.rpartition(".")[2]), parts_of(job), job in ENDING)

    return run


@pytest.mark.parametrize(
    ("job", "part"), [pytest.param(job, part, id=part.__name__) for job in JOBS for part in parts_of(job)]
)
def test_outputs_and_state_are_those_of_a_loop(job: Any, part: type[Part], ran: Callable[[Any], Running]) -> None:
    for start, error in ran(job).faults[part]:
        raise AssertionError(f"at start {start + 1}") from error
