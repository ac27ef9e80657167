"""Stops a job with a savepoint, in an order in which a savepoint that fails leaves the job running."""

from collections.abc import Callable
from typing import TypeVar

from state_engine.savepoint.request import SavepointRequest
from state_engine.storage.open import open_root

BEFORE_DRAIN = "before drain"
"""Label of the savepoint that is taken before a drain."""

Taken = TypeVar("Taken")


def stop_with_savepoint(
    stop: Callable[..., None], take: Callable[[SavepointRequest], Taken], request: SavepointRequest, *, drain: bool
) -> Taken:
    """Takes a savepoint of the last epoch of a job, and stops the job.

    A drain cannot be undone. A stop with a drain therefore leaves two savepoints. The first is a native one before the
    drain, labelled `before drain`: it is the one to go on from, and shows whether a savepoint can be taken at all. The
    second is the requested one.

    Args:
        stop: Stops the job: `JobClient.stop`, which calls its `before` while no epoch can begin.
        take: Takes a savepoint.
        request: The requested savepoint.
        drain: End the input first.

    Returns:
        What `take` returned for the requested savepoint.

    Raises:
        Exception: What `take` raised: the job runs on, unless it was drained already.
        LakestateError: What `stop` raised: the drain failed, and the job has ended with it.
    """
    taken: list[Taken] = []
    if not drain:
        stop(before=lambda: taken.append(take(request)))
        return taken[0]
    stop(drain=True, before=lambda: _before_drain(take, request))
    return take(request)


def _before_drain(take: Callable[[SavepointRequest], object], request: SavepointRequest) -> None:
    if request.directory is not None:
        open_root(request.directory).check_writable()
    take(SavepointRequest(label=BEFORE_DRAIN))


__all__ = ["BEFORE_DRAIN", "stop_with_savepoint"]
