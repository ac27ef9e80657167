"""What is known of a stream when a code location is loaded: neither the job is imported for it, nor a JVM started."""

import logging
from threading import Thread

from lakestate.assets.stream_plan import StreamPlan, merged, plan_of, read_plan
from lakestate.registry import find_plan, registered_jobs
from lakestate.resources import StateStoreResource
from state_engine.errors import LakestateError

PATIENCE_S = 2.0
"""A store that does not answer within this time must not keep a code location from being loaded."""

_log = logging.getLogger(__name__)


def known_plan(state_store: StateStoreResource, job: str, plan: StreamPlan | None = None) -> StreamPlan:
    """Returns what is known of a stream: its plan, and what its newest epoch adds to it.

    Args:
        state_store: Where its state lies.
        job: Name of the job.
        plan: What it is made of; of a registered job that which lies beside its module.

    Raises:
        JobDefinitionError: What lies there is no plan of this job.
    """
    text = find_plan(job) if plan is None and job in registered_jobs() else None
    return merged(read_plan(job, text) if text is not None else plan, seen_plan(state_store, job))


def seen_plan(state_store: StateStoreResource, job: str, patience_s: float = PATIENCE_S) -> StreamPlan | None:
    """Returns what the newest sealed epoch of a job tells; None before the first, or where the store does not answer.

    Args:
        state_store: Where its state lies.
        job: Name of the job.
        patience_s: How long to wait for the store.
    """
    found: list[StreamPlan] = []

    def look() -> None:
        try:
            head = state_store.open_job(job).newest()
        except LakestateError as error:
            _log.warning("The states of job %s are not known yet: %s", job, error)
            return
        if head is not None:
            found.append(plan_of(head.manifest))

    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(patience_s)
    if looking.is_alive():
        _log.warning("The states of job %s are not known yet: %s does not answer.", job, state_store.root)
    return found[0] if found else None


__all__ = ["PATIENCE_S", "known_plan", "seen_plan"]
