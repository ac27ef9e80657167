"""Finds what a stream is made of when a code location is loaded, without importing the job or starting a JVM."""

import logging
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from lakestate.assets.stream_plan import StreamPlan, merged, plan_of, read_plan
from lakestate.registry import find_plan, registered_jobs
from lakestate.resources import StateStoreResource
from state_engine.errors import JobDefinitionError, LakestateError

PATIENCE_S = 2.0
"""How long to wait for a store: one that does not answer must not keep a code location from loading."""

_FIELDS: Mapping[str, Any] = {
    "sources": {"name": {}, "kind": {}},
    "operators": {
        "uid": {},
        "states": {"name": {}, "kind": {}, "shape": {}, "type": {}},
        "sinks": {"uid": {}, "kind": {}},
    },
}
"""The fields of a plan that a user writes; `lakestate explain --json` prints others, too."""

_log = logging.getLogger(__name__)


def plan_from(job: str, given: Path | Mapping[str, Any]) -> StreamPlan:
    """Returns the plan of a stream that a user gives.

    Args:
        job: Name of the job.
        given: The file that `lakestate explain <job> --json` wrote, or a mapping with its fields `sources` and
            `operators`.

    Raises:
        JobDefinitionError: The file is missing, or is not a plan of this job; the mapping has other fields.
    """
    if isinstance(given, Path):
        try:
            return read_plan(job, given.read_bytes())
        except OSError as error:
            raise JobDefinitionError(
                f"The plan of job {job!r} cannot be read: {error}.",
                action=f"Write it: lakestate explain {job} --json > {given.name}",
            ) from error
    _check_fields(job, given, _FIELDS, "")
    return read_plan(job, msgspec.json.encode({**given, "job": job}))


def _check_fields(job: str, given: Any, fields: Mapping[str, Any], path: str) -> None:
    for number, one in enumerate(given) if isinstance(given, list) else [(None, given)]:
        place = path if number is None else f"{path}[{number}]"
        if not isinstance(one, Mapping):
            continue  # `read_plan` names the type that a field must have
        for name, value in one.items():
            if name not in fields:
                raise JobDefinitionError(
                    f"The plan of job {job!r} has a field {f'{place}.{name}' if place else name}, which no plan has.",
                    action=f"Use these: {', '.join(fields)}.",
                )
            if fields[name]:
                _check_fields(job, value, fields[name], f"{place}.{name}" if place else str(name))


def known_plan(state_store: StateStoreResource, job: str, plan: StreamPlan | None = None) -> StreamPlan:
    """Returns the plan of a stream, with what its newest epoch adds to it.

    Args:
        state_store: Where its state is stored.
        job: Name of the job.
        plan: What it is made of; for a registered job the default is the plan beside its module.

    Raises:
        JobDefinitionError: The file beside the module is not a plan of this job.
    """
    text = find_plan(job) if plan is None and job in registered_jobs() else None
    return merged(read_plan(job, text) if text is not None else plan, seen_plan(state_store, job))


def seen_plan(state_store: StateStoreResource, job: str, patience_s: float = PATIENCE_S) -> StreamPlan | None:
    """Returns the plan from a job's newest sealed epoch; None before the first, or if the store fails or is too slow.

    Args:
        state_store: Where its state is stored.
        job: Name of the job.
        patience_s: How long to wait for the store.
    """
    epoch_plans: list[StreamPlan] = []

    def look() -> None:
        try:
            head = state_store.open_job(job).newest()
        except LakestateError as error:
            _log.warning("The states of job %s are not known yet: %s", job, error)
            return
        if head is not None:
            epoch_plans.append(plan_of(head.manifest))

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(patience_s)
    if thread.is_alive():
        _log.warning("The states of job %s are not known yet: %s does not answer.", job, state_store.root)
    return epoch_plans[0] if epoch_plans else None


__all__ = ["PATIENCE_S", "known_plan", "plan_from", "seen_plan"]
