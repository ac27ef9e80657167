"""Stopping a job with a savepoint: in which order, so that a savepoint that fails leaves the job running."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

from state_engine.storage.open import open_root

BEFORE_DRAIN = "before drain"
"""Label of the savepoint in front of a drain."""

Taken = TypeVar("Taken")


class SavepointRequest(NamedTuple):
    """What kind of savepoint is wanted, where, and what people call it. Without `epoch` it is the newest sealed one.

    `trigger` is who asks; whoever takes the savepoint, if it is empty.
    """

    kind: Literal["native", "canonical"] = "native"
    directory: str | None = None
    label: str = ""
    note: str = ""
    epoch: int | None = None
    trigger: str = ""

    def arguments(self, carried_out_by: str) -> dict[str, Any]:
        """Returns the arguments of `trigger_savepoint`."""
        return {**self._asdict(), "trigger": self.trigger or carried_out_by}


def stop_with_savepoint(
    stop: Callable[..., None], take: Callable[[SavepointRequest], Taken], wanted: SavepointRequest, *, drain: bool
) -> Taken:
    """Takes a savepoint of the epoch that a job ends with, and ends it.

    What was drained cannot be taken back. A drain therefore leaves two savepoints: a native one in front of it,
    labelled `before drain`, which is the one to go on from and tells whether any can be taken, and the one asked for.

    Args:
        stop: Stops the job; `JobClient.stop`, whose `before` is called while no epoch can begin.
        take: Takes a savepoint.
        wanted: Which one.
        drain: End the input first.

    Returns:
        What `take` returned for the savepoint that was asked for.

    Raises:
        Exception: What `take` raised: the job runs on, unless it was drained already.
        LakestateError: What `stop` raised: the drain failed, and the job has ended with it.
    """
    taken: list[Taken] = []
    if not drain:
        stop(before=lambda: taken.append(take(wanted)))
        return taken[0]
    stop(drain=True, before=lambda: _before_drain(take, wanted))
    return take(wanted)


def _before_drain(take: Callable[[SavepointRequest], object], wanted: SavepointRequest) -> None:
    if wanted.directory is not None:
        open_root(wanted.directory).check_writable()
    take(SavepointRequest(label=BEFORE_DRAIN))


__all__ = ["BEFORE_DRAIN", "SavepointRequest", "stop_with_savepoint"]
