"""A job's log without a JVM, and Dagster instances."""

import contextlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.defs_state.base import DefsStateStorage

from lakestate.resources import RestClientResource, SparkSessionResource, StateStoreResource
from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.rows import ended_row
from state_engine.checkpoint.table import CheckpointTable
from state_engine.clock import SystemClock
from state_engine.epoch.ports import Mark
from state_engine.storage.open_access import open_tables
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder

sys.path.insert(0, str(Path(__file__).parent))


class Stream:
    """The log of a stopped job, extended epoch by epoch."""

    def __init__(self, root: Path, job: str = "flights") -> None:
        self.job = job
        self.state_store = StateStoreResource(root=str(root))
        self.sensor_resources = {"state_store": self.state_store, "rest_client": RestClientResource(root=str(root))}
        self.resources = self.sensor_resources | {"spark_session": SparkSessionResource(master="local[1]")}
        self.log = JobBuilder(str(root), job, [state("aircraft", "legs", "tailnum string", "bigint")])
        self.publisher = CheckpointPublisher(self.log.storage, job)

    def epoch(self, *, checkpoint_id: int | None = None) -> None:
        """Seals an epoch that counts 20 aircraft, and publishes it as a checkpoint if that has an id."""
        count = self.log.head.manifest.epoch if self.log.head else 0
        sealed = self.log.epoch(
            {("aircraft", "legs"): [put(f"N{number}", count) for number in range(20)]}, checkpoint_id=checkpoint_id
        )
        self.publisher.begin(sealed)
        self.log.adopt(self.publisher.completed())

    def checkpoints(self, first: int, last: int) -> None:
        """Completes the checkpoints of these ids, both inclusive, each after two epochs."""
        for checkpoint_id in range(first, last + 1):
            self.epoch()
            self.epoch(checkpoint_id=checkpoint_id)

    def grow(self, keys: int, *, checkpoint_id: int) -> None:
        """Completes a checkpoint after adding `keys` keys to a state."""
        changes = {("aircraft", "legs"): [put(f"G{number}", number) for number in range(keys)]}
        self.publisher.begin(self.log.epoch(changes, checkpoint_id=checkpoint_id))
        self.log.adopt(self.publisher.completed())

    def fail_checkpoints(self, first: int, last: int) -> None:
        """Makes the checkpoints of these ids, both inclusive, fail now."""
        rows = CheckpointTable(self.log.storage, open_tables(self.log.storage))
        for checkpoint_id in range(first, last + 1):
            sealed = self.log.epoch(checkpoint_id=checkpoint_id)
            mark, reason = Mark(checkpoint_id=checkpoint_id), FailureReason.FINALIZE_CHECKPOINT_FAILURE
            row = ended_row(sealed, mark, reason, SystemClock().now_ms(), "The disk was full.")
            rows.append([row], app_id=f"test/{checkpoint_id}", version=1)


@pytest.fixture(autouse=True)
def _leaves_no_instance() -> Iterator[None]:
    """Fails a test that leaves a context open: later tests would see its instance, which is gone."""
    before = DefsStateStorage.get()
    yield
    assert DefsStateStorage.get() is before, "enter the contexts of Dagster's `build_…_context` by `with`"


@pytest.fixture
def new_stream() -> Callable[[Path], Stream]:
    """Makes a job's log below a folder."""
    return Stream


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """A job that never ran."""
    return Stream(tmp_path / "state")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster instance in memory; `test_dagster_dev.py` has those on disk."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture(scope="session")
def dagster_dev() -> Any:
    """The class `DagsterDev`; test folders are no packages, so that none of them is called `dagster`."""
    path = Path(__file__).with_name("dagster_dev.py")
    spec = importlib.util.spec_from_file_location("dagster_dev_of_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DagsterDev


@pytest.fixture(scope="module")
def live_dagster_of_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One `LiveDagster` for all tests of a file: its daemon ticks five times a second, so it ends with them."""
    from live_dagster import LiveDagster

    with LiveDagster(tmp_path_factory.mktemp("live")) as live:
        yield live


@pytest.fixture
def live_dagster(live_dagster_of_file: Any) -> Any:
    """A Dagster with daemon and web server, all of them alive (`LiveDagster`); its tests are marked `slow`."""
    live_dagster_of_file.mend()
    return live_dagster_of_file


_numbers = itertools.count(1)


@contextlib.contextmanager
def _streams(live_dagster: Any) -> Iterator[Callable[..., Any]]:
    from live_stream import LiveStream

    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PYTHONPATH", live_dagster.environment["PYTHONPATH"])  # the job is announced there
        patch.syspath_prepend(str(live_dagster.folder))

        def make(name: str = "tide", **arguments: Any) -> LiveStream:
            job = f"{name}{next(_numbers)}"
            live_dagster.declare(job, **arguments)
            stack.callback(live_dagster.retire, job)
            return stack.enter_context(LiveStream(live_dagster.root, job))

        yield make


@pytest.fixture
def new_live_stream(live_dagster: Any) -> Iterator[Callable[..., Any]]:
    """Declares a job with a new name in the live Dagster, and returns its `LiveStream`, which is not started yet.

    The arguments are those of `build_stream_definitions`. Tests that start it are marked `spark` as well.
    """
    with _streams(live_dagster) as make:
        yield make


@pytest.fixture(scope="module")
def new_shared_stream(live_dagster_of_file: Any) -> Iterator[Callable[..., Any]]:
    """As `new_live_stream`, for a stream that the tests of one file share: a start costs about ten seconds."""
    live_dagster_of_file.mend()
    with _streams(live_dagster_of_file) as make:
        yield make
