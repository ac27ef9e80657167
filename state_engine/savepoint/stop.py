"""Stops a job with a savepoint, in an order in which a savepoint that fails leaves the job running."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

from state_engine.storage.open import open_root

BEFORE_DRAIN = "before drain"
"""Label of the savepoint that is taken before a drain."""

Taken = TypeVar("Taken")


class SavepointRequest(NamedTuple):
    """The savepoint to take: its kind, its directory, its label and note. Without `epoch`: of the newest sealed one.

    `trigger` names who requested the savepoint. If it is empty, `arguments` names who carries out the request instead.
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
    """Takes a savepoint of the last epoch of a job, and stops the job.

    A drain cannot be undone. A stop with a drain therefore leaves two savepoints. The first is a native one before the
    drain, labelled `before drain`: it is the one to go on from, and shows whether a savepoint can be taken at all. The
    second is the requested one.

    Args:
        stop: Stops the job: `JobClient.stop`, which calls its `before` while no epoch can begin.
        take: Takes a savepoint.
        wanted: The requested savepoint.
        drain: End the input first.

    Returns:
        What `take` returned for the requested savepoint.

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
