"""The operators that one task runs: a chain, in which each link takes the output of the link before it."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from state_engine.log.records import Ack, Failure, HighestTime
from state_engine.spark.worker.link import Given, Link, Outputs, Step


class Chain:
    """The links of one attempt of one subtask, upstream first.

    The failure of one link ends the work of all, because the epoch will not be sealed. The other links then report
    poison, and their instances keep an overlay that the next attempt forgets.

    Args:
        links: At least one.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = tuple(links)

    @property
    def head(self) -> Link:
        """The link that takes the records of the exchange."""
        return self._links[0]

    @property
    def failure(self) -> Failure | None:
        """What ended the work, if anything did."""
        return next((link.failure for link in self._links if link.failure is not None), None)

    def acquire(self) -> None:
        """Runs E3 for all links."""
        for link in self._links:
            if self.failure is None:
                link.acquire([before.held for before in self._links if before.held is not None])

    def release(self) -> None:
        """Notes that the task is over."""
        for link in self._links:
            link.release()

    def advance(self) -> Iterator[Outputs]:
        """Begins E4: notifies functions of checkpoints and fires timers.

        Yields what the last link gives, as the methods below do. The last link comes first, so no function gets a
        record of the epoch before it is notified of the checkpoints.
        """
        for n in reversed(range(len(self._links))):
            yield from self._step(n, lambda operator: operator.advance())

    def process(self, records: pa.RecordBatch) -> Iterator[Outputs]:
        """Runs E4 for one batch of the exchange."""
        if self.failure is None:
            yield from self._hand_on(1, self.head.take_records(records))

    def flush(self) -> Iterator[Outputs]:
        """Runs E4 after the last record: functions over batches get the waiting records, then timers now due fire."""
        for n in range(len(self._links)):
            yield from self._step(n, lambda operator: operator.flush())
            yield from self._step(n, lambda operator: operator.advance_watermark())

    def finish(self, uids: Sequence[str]) -> Iterator[Outputs]:
        """E4: tells the functions of these operators that their input has ended, upstream first."""
        for n, link in enumerate(self._links):
            if link.uid in uids:
                yield from self._step(n, lambda operator: operator.finish())

    def _step(self, n: int, step: Step) -> Iterator[Outputs]:
        if self.failure is None:
            yield from self._hand_on(n + 1, self._links[n].run(step))

    def _hand_on(self, n: int, given: Given | None) -> Iterator[Outputs]:
        """Hands the output of a link through the links from number `n` on."""
        for link in self._links[n:]:
            if given is None:
                return
            given = link.take(given)
        if isinstance(given, dict):
            yield given

    def end(self, event_times: tuple[HighestTime, ...], timings: dict[str, float]) -> list[Ack]:
        """E5, link by link; returns the acks in that order.

        Args:
            event_times: The largest event times in the input of the first link.
            timings: The task's measured times, which are updated meanwhile; the first ack carries them.
        """
        for link in self._links:
            if self.failure is None:
                link.end()
        if (failure := self.failure) is not None:
            for link in self._links:
                link.poison(failure)
        return [self.head.ack(event_times, timings), *(link.ack() for link in self._links[1:])]


__all__ = ["Chain"]
