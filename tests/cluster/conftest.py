"""A standalone cluster of Spark on loopback: a master, and workers of one core, each a process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[object]:
    from standalone import Standalone

    with Standalone(tmp_path / "cluster") as cluster:
        cluster.add_worker()
        yield cluster
