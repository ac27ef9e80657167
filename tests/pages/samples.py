"""State roots that pages take as given, written without Spark."""

import random

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.log.records import StateSchema
from state_engine.savepoint import trigger_savepoint
from state_engine.testing.changes import Change, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes

ROUTES = state("aircraft", "routes", "tailnum string", "bigint", shape="map", user_key="string")


class NamedIds:
    """Gives savepoints the names that a page uses."""

    def __init__(self, name: str) -> None:
        self._name = name

    def new_id(self) -> str:
        return self._name.rpartition("-")[2].ljust(32, "0")


def flights(
    root: str = "state", *, epochs: int = 8, schemas: tuple[StateSchema, ...] = (*SCHEMAS, ROUTES), seed: int = 1
) -> JobBuilder:
    """Writes the job `flights`: random changes in each epoch, and a checkpoint with every second one but the last."""
    builder = JobBuilder(root, "flights", schemas)
    publisher = CheckpointPublisher(builder.storage, builder.job, clock=ManualClock(builder.now_ms))
    rng = random.Random(seed)
    for number in range(1, epochs + 1):
        changes = random_changes(rng, 20)
        if ROUTES in schemas:
            changes["aircraft", "routes"] = [_route(rng) for _ in range(10)]
        checkpoint = number // 2 if number % 2 == 0 and number < epochs else None
        sealed = builder.epoch(changes, checkpoint_id=checkpoint)
        if checkpoint is not None:
            publisher.begin(sealed)
            builder.adopt(publisher.completed())
    return builder


def _route(rng: random.Random) -> Change:
    return put(f"N{rng.randrange(12)}", rng.randrange(1, 40), user_key=rng.choice(["JFK-BOS", "LGA-ORD", "EWR-SFO"]))


def savepoint_called(name: str, root: str = "state", *, epoch: int | None = None, label: str = "") -> str:
    """Takes a native savepoint of `flights` that has the name which a page shows."""
    from datetime import datetime, timezone

    taken = datetime.strptime(name.split("-")[1], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc)
    clock = ManualClock(int(taken.timestamp()) * 1000)
    pin = trigger_savepoint(root, "flights", epoch=epoch, label=label, clock=clock, ids=NamedIds(name))
    assert pin.savepoint_id == name
    return pin.savepoint_id
