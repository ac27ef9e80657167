"""State roots that pages take as given, written without Spark."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.log.records import StateSchema
from state_engine.savepoint import trigger_savepoint
from state_engine.testing.changes import Change, StateName, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes

ROUTES = state("aircraft", "routes", "tailnum string", "bigint", shape="map", user_key="string")
Changes = Mapping[StateName, Sequence[Change]]


class NamedIds:
    """Gives savepoints the names that a page uses."""

    def __init__(self, name: str) -> None:
        self._name = name

    def new_id(self) -> str:
        return self._name.rpartition("-")[2].ljust(32, "0")


def published(
    job: str, schemas: Sequence[StateSchema], epochs: Sequence[Changes], *, every: int = 1, max_parallelism: int = 13
) -> JobBuilder:
    """Writes a job below `state`, with these changes in its epochs, and a checkpoint with every so-and-so-many-th."""
    builder = JobBuilder("state", job, schemas, max_parallelism=max_parallelism)
    publisher = CheckpointPublisher(builder.storage, job, clock=ManualClock(builder.now_ms))
    for number, changes in enumerate(epochs, 1):
        checkpoint = number // every if number % every == 0 else None
        sealed = builder.epoch(changes, checkpoint_id=checkpoint)
        if checkpoint is not None:
            publisher.begin(sealed)
            builder.adopt(publisher.completed())
    return builder


def flights(schemas: Sequence[StateSchema] = SCHEMAS, *, seed: int = 1) -> JobBuilder:
    """Writes the job `flights`: random changes in nine epochs, and a checkpoint with every second one."""
    rng = random.Random(seed)
    return published("flights", schemas, [_changes(rng, schemas) for _ in range(9)], every=2)


def _changes(rng: random.Random, schemas: Sequence[StateSchema]) -> Changes:
    routes = {("aircraft", "routes"): [_route(rng) for _ in range(10)]} if ROUTES in schemas else {}
    return random_changes(rng, 20) | routes


def _route(rng: random.Random) -> Change:
    return put(f"N{rng.randrange(12)}", rng.randrange(1, 40), user_key=rng.choice(["JFK-BOS", "LGA-ORD", "EWR-SFO"]))


def savepoint_called(name: str, *, epoch: int | None = None, label: str = "") -> None:
    """Takes a native savepoint of `flights` that has the name which a page shows."""
    taken = datetime.strptime(name.split("-")[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    clock = ManualClock(int(taken.timestamp()) * 1000)
    pin = trigger_savepoint("state", "flights", epoch=epoch, label=label, clock=clock, ids=NamedIds(name))
    assert pin.savepoint_id == name
