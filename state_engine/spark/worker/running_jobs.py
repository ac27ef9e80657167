"""Which jobs this driver runs, as their tasks tell the workers.

A worker keeps the state of a job between epochs. Spark gives it tasks of any job, and nothing else tells it that a job
will have no further epoch. So each task carries the list of running jobs.
"""

from collections.abc import Iterable

import msgspec

from state_engine.epoch.ports import EpochPlan

JobPlace = tuple[str, str]
"""Root and name of a job."""

RUNNING_PROPERTY = "lakestate.jobs.running"
_decoder = msgspec.json.Decoder(list[JobPlace])


class RunningJobs:
    """The running jobs, by the incarnation that runs them: one may still be ending while the next has begun."""

    def __init__(self) -> None:
        self._places: dict[str, JobPlace] = {}

    def begin(self, incarnation: str, root: str, job: str) -> None:
        """Notes that a job runs; from any thread."""
        self._places[incarnation] = (root, job)

    def end(self, incarnation: str) -> None:
        """Notes that an incarnation has had its last epoch; from any thread."""
        self._places.pop(incarnation, None)

    def encode(self, plan: EpochPlan) -> str:
        """Returns the text for the tasks of an epoch: the running jobs, and in any case the epoch's own job."""
        return msgspec.json.encode(sorted({*self._places.values(), (plan.root, plan.job)})).decode()


def decode_running(told: str | None) -> Iterable[JobPlace] | None:
    """Returns the running jobs; None if a task was not told."""
    return _decoder.decode(told) if told else None


RUNNING = RunningJobs()

__all__ = ["RUNNING", "RUNNING_PROPERTY", "JobPlace", "RunningJobs", "decode_running"]
