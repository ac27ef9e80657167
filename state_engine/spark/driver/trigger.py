"""Keeps the epochs of a running job apart, so that a trickle of input does not make several commits a second."""

import threading
from collections.abc import Callable

from state_engine.clock import Clock
from state_engine.errors import JobDefinitionError

TRIGGER_INTERVAL_MS = 1_000
"""Time between the beginnings of two epochs with input, unless a start sets another one."""
_LONGEST_MS = 86_400_000
_LOOK_S = 1.0


def checked_interval(interval_ms: int) -> int:
    """Returns an interval if it is one.

    Raises:
        JobDefinitionError: It is below 0, or longer than a day.
    """
    if not 0 <= interval_ms <= _LONGEST_MS:
        raise JobDefinitionError(
            f"The trigger interval is {interval_ms} ms.",
            action="Give the time between two epochs in milliseconds, at most a day, or 0 for epochs as close as they "
            "can be.",
        )
    return interval_ms


class TriggerInterval:
    """The time between the beginnings of two batches; the first batch after a pause begins at once.

    Spark begins a batch as soon as there is input and the batch before has returned. So a batch whose epoch is done
    returns only when its interval is over. What has come until then is the next batch. (Spark's own trigger for
    processing time begins batches at multiples of its interval, so that the first record after a pause waits, too;
    docs/adr/0039-epochs-apart.md.)

    Args:
        interval_ms: The time; 0 for none.
        clock: The clock.
    """

    def __init__(self, interval_ms: int, clock: Clock) -> None:
        self._interval_ms = interval_ms
        self._clock = clock
        self._changed = threading.Condition()
        self._begun_ms = 0
        self._holds = self._has_ended = False

    @property
    def interval_ms(self) -> int:
        """The time between two batches; a new value takes effect at once."""
        return self._interval_ms

    @interval_ms.setter
    def interval_ms(self, interval_ms: int) -> None:
        with self._changed:
            self._interval_ms = interval_ms
            self._changed.notify_all()

    @property
    def holds(self) -> bool:
        """Whether a batch whose epoch is done waits for the end of its interval."""
        return self._holds

    def begin(self) -> None:
        """Notes the beginning of a batch."""
        self._begun_ms = self._clock.steady_ms()

    def hold(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Waits until the interval since `begin` is over, or the job ends.

        Args:
            goes_on: Returns whether the query goes on; called once a second. Its stop by its author, not by the job,
                waits for the batch.
        """
        with self._changed:
            self._holds = True
            while not self._has_ended and (left_ms := self._left_ms()) > 0:
                if not self._changed.wait(min(left_ms / 1000, _LOOK_S)) and not goes_on():
                    break
            self._holds = False

    def end(self) -> None:
        """Lets a batch that waits return, and later ones at once: the job ends."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _left_ms(self) -> int:
        return self._begun_ms + self._interval_ms - self._clock.steady_ms()


__all__ = ["TRIGGER_INTERVAL_MS", "TriggerInterval", "checked_interval"]
