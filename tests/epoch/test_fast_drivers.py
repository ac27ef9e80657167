"""A start or restore while a driver seals epochs faster than the start can look at the log and the sinks."""

from collections.abc import Iterator

import pytest

from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import FencedError
from state_engine.testing.simulated_cluster import Cluster, ClusterDriver

LOOKS = (CrashPoint.S1_HEAD_FOUND, CrashPoint.S2_BEFORE_CLOSING)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A driver that seals an epoch after each look of a start, and before the start closes the generation."""
    made = Cluster()
    fast = ClusterDriver(made, 0, 1)
    fast.start()
    fast.step()

    def meanwhile(_: object, point: CrashPoint, epoch: int) -> None:
        if point in LOOKS and not fenced:
            try:
                fast.step()
            except FencedError:
                fenced.append(point)

    fenced: list[CrashPoint] = []
    monkeypatch.setattr("state_engine.testing.simulated_cluster.Crashes.at", meanwhile)
    yield made
    made.close()


@pytest.mark.parametrize("restore", [None, "latest", "epoch:1/2"])
def test_it_takes_the_job_over(cluster: Cluster, restore: str | None) -> None:
    driver = ClusterDriver(cluster, 0, 1)
    driver.start(restore)
    driver.step()
    head = look.newest(cluster.open_log())
    assert head is not None
    assert head.manifest.generation == (1 if restore is None else 2)
    read = int(head.manifest.sources[0].offset)
    assert sorted(row[0] for row in cluster.table.live) == list(range(read)), "each record once"
