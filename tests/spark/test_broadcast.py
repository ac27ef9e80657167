"""Broadcast streams: each record goes to every subtask of the next operator."""

from pathlib import Path

import pytest
from support import Folders

from state_engine.errors import UnsupportedTopologyError
from state_engine.spark import StreamJob

pytestmark = pytest.mark.spark


def test_what_cannot_be_broadcast(spark, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(1, 1)
    job = StreamJob("refused", root=str(tmp_path / "root"))
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    for build in (lambda: one.union(two.broadcast()), lambda: one.broadcast().union(two)):
        with pytest.raises(UnsupportedTopologyError, match="broadcast stream and one that is not") as caught:
            build()
        assert "after union()" in caught.value.action
