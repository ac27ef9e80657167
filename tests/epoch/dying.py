"""Starts of the simulated cluster that die."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.testing.simulated_cluster import Cluster


@contextmanager
def dying_at(cluster: Cluster, point: CrashPoint) -> Iterator[None]:
    """Ends a start at a crash point after its closing manifest."""

    class Died(Exception): ...

    def die(_: object, at: CrashPoint, epoch: int) -> None:
        head = look.newest(cluster.open_log())
        if at is point and head is not None and head.manifest.kind == "closing":
            raise Died

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("state_engine.testing.simulated_cluster.Crashes.at", die)
        with pytest.raises(Died):
            yield
