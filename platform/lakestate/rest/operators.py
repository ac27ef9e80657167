"""Sums over a job's epochs, and counts per operator from the acks of the newest manifest."""

from collections.abc import Sequence
from typing import Any

from lakestate.rest.job_port import Operator
from state_engine.log.records import Manifest, OperatorEpoch

_NO_TIME = 1 << 62
"""Watermarks beyond this, near the limits of 64 bits, mean that there is no event time yet, or none any more."""


class OperatorCounts:
    """Adds up the epochs of one incarnation. Not safe for threads.

    No epoch is missed if there is at least one look in 10,000 epochs. Figures of single operators are those of the
    newest epoch, not sums.

    Args:
        nodes: The operators of the graph.
        epoch: The epoch with which the incarnation began; it is not counted.
    """

    def __init__(self, nodes: Sequence[Any], epoch: int) -> None:
        self._upstream = {node.uid: tuple(dict.fromkeys(above.uid for above, _ in node.upstream)) for node in nodes}
        self._epoch = epoch
        self.epochs = 0
        self.records = 0
        self.seconds = 0.0
        self.retries = 0

    def look(self, client: Any) -> None:
        """Adds the epochs since the last look."""
        for summary in client.epochs_after(self._epoch):
            self._epoch = summary.epoch
            self.epochs += 1
            self.records += summary.records
            self.seconds += summary.seconds
            self.retries += max(0, summary.attempts - 1)

    def operators(self, head: Manifest) -> tuple[Operator, ...]:
        """Returns the operators of the newest manifest."""
        return tuple(self._operator(uid, epoch, head) for uid, epoch in head.operators.items())

    def _operator(self, uid: str, epoch: OperatorEpoch, head: Manifest) -> Operator:
        watermark = head.watermarks.get(uid)
        has_time = watermark is not None and -_NO_TIME < watermark < _NO_TIME
        return Operator(
            uid=uid,
            parallelism=epoch.parallelism,
            max_parallelism=epoch.max_parallelism,
            upstream=self._upstream.get(uid, ()),
            records_in=sum(ack.records_in for ack in epoch.acks),
            records_out=sum(ack.records_out for ack in epoch.acks),
            state_rows=sum(one.rows for ack in epoch.acks for one in ack.statistics),
            keys=sum(ack.keys for ack in epoch.acks),
            watermark_ms=watermark if has_time else None,
        )


__all__ = ["OperatorCounts"]
