"""Processing time of a driver: that of the wall clock, except where somebody sets that."""

from collections.abc import Callable

from state_engine.clock import Clock

STEP_MS = 10_000
"""A wall clock that moves by more than this, beside the time that has passed, has been set."""


class HeldClock:
    """A clock that no step of the wall clock moves: what a driver takes for processing time.

    Small corrections, such as those of a time server, are followed. A step of more than `STEP_MS` between two looks is
    not: the time goes on from where it was, by the time that has passed, until the wall clock is back. Which of the two
    is right is not decided here: a new driver begins with the time of the wall clock.

    Args:
        clock: The wall clock, and the time that has passed.
        on_step: Is told of each step once, in ms; of the way back too, as 0.
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
