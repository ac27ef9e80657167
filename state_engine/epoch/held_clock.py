"""Processing time of a driver: the time of the wall clock, except after the wall clock was set."""

from collections.abc import Callable

from state_engine.clock import Clock

STEP_MS = 10_000
"""A wall clock that moves by more than this, in addition to the time that has passed, has been set."""


class HeldClock:
    """A clock for a driver's processing time that no step of the wall clock moves.

    It follows small corrections, such as those of a time server. It does not follow a step of more than `STEP_MS`
    between two calls: the time goes on from where it was, by the time that has passed, until the wall clock is back.
    This class does not decide which of the two is right: a new driver begins with the time of the wall clock.

    Args:
        clock: The wall clock, and the time that has passed.
        on_step: Called once for each step, with its size in ms; with 0 when the wall clock is back.
    """

    def __init__(self, clock: Clock, on_step: Callable[[int], None] = lambda _: None) -> None:
        self._clock, self._on_step = clock, on_step
        self._offset = clock.now_ms() - clock.steady_ms()
        self._step = 0

    def now_ms(self) -> int:
        steady = self._clock.steady_ms()
        step = self._clock.now_ms() - steady - self._offset
        if abs(step) <= STEP_MS:
            self._offset += step
            step = 0
        if abs(step - self._step) > STEP_MS:
            self._step = step
            self._on_step(step)
        return steady + self._offset

    def steady_ms(self) -> int:
        return self._clock.steady_ms()


__all__ = ["STEP_MS", "HeldClock"]
