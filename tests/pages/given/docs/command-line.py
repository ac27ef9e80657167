"""Two jobs, two savepoints of one of them, and a file of an attempt that died, as the page shows them."""

import random
from pathlib import Path

from flights_code import register, schemas
from samples import flights, savepoint_called

from state_engine.log.paths import change_path
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.sample_jobs import SCHEMAS, random_changes


def given(monkeypatch):
    register(monkeypatch)
    flights(schemas(), seed=4)  # with keys of the page among those that changed
    Path("state/flights", change_path(1, 7, "aircraft", 0, "f" * 32)).write_bytes(bytes(2048))
    orders = JobBuilder("state", "orders", SCHEMAS)
    orders.epoch(random_changes(random.Random(2)))
    savepoint_called("sp-20261121T233834-1533dd73", epoch=7, label="before the rescale")
    savepoint_called("sp-20261121T233834-5b8afaca", epoch=8, label="after")
    names = {}
    yield names
    verbs = {command.split()[1] for command in names["commands_of_page"]}
    assert {"list", "status", "checkpoints", "top", "inspect", "savepoint", "savepoints", "retain", "compact"} <= verbs
