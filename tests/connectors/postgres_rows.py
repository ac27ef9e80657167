"""Writes epochs to a sink of PostgreSQL as the driver does."""

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa

from state_engine.api.sinks import SinkMarker, SinkName
from state_engine.spark import PostgresSink

NAME = SinkName("job", "out")
LOG = 5


def write(sink: PostgresSink, *epochs: pa.Table | Sequence[pa.RecordBatch], check: bool = True) -> None:
    """Checks and prepares the sink, then writes epochs; each in one batch, or in the batches that are given."""
    batches = [epoch.to_batches() if isinstance(epoch, pa.Table) else list(epoch) for epoch in epochs]
    with closing(sink.connect(NAME, batches[0][0].schema)) as connection:
        if check:
            connection.check()
        connection.prepare()
        before = connection.marker()
        for epoch in batches:
            after = SinkMarker(LOG, 1, before.epoch + 1 if before is not None else 0)
            assert connection.commit(epoch, before, after)
            before = after


__all__ = ["LOG", "NAME", "write"]
