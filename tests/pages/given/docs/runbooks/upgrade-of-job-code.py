"""The state of the example `flights` in 32 epochs, three savepoints of it, and the note that it shall run."""

from samples import published, savepoint_called

from lakestate.registry import build_dry
from lakestate.start_request import StartRequest
from lakestate.supervision.records import Wanted, WantedFile, absolute_root, driver_folder
from state_engine.spark.driver.startup import shapes_of
from state_engine.testing.changes import append, put

RECORD = {"legs": 3, "late_legs": 1, "worst_late_streak": 1}


def given(monkeypatch):
    monkeypatch.setenv("LAKESTATE_ROOT", "state")
    job = build_dry("flights", "state")
    shapes = shapes_of(job.settings, job.operators)
    schemas = [schema for shape in shapes for schema in shape.schemas]
    epochs = [changes(f"N{number}") for number in range(31)]
    builder = published("flights", schemas, epochs, every=10, max_parallelism=128)
    builder.epoch(kind="claim")
    savepoint_called("sp-20261122T101522-d36f683c", epoch=19)
    savepoint_called("sp-20261122T101651-0532d00b", epoch=31)
    savepoint_called("sp-20261122T102120-7432439f", epoch=32)
    notes = WantedFile(driver_folder(absolute_root("state"), "flights"))
    with notes.locked():
        notes.write(Wanted(state="running", since=builder.now_ms, request=StartRequest()))
    names = {}
    yield names
    assert {command.split()[1] for command in names["commands_of_page"]} >= {
        "savepoint",
        "savepoints",
        "status",
        "restore",
    }


def changes(tailnum):
    """Returns changes of all states of one epoch."""
    return {
        ("aircraft", "legs"): [put(tailnum, 2)],
        ("aircraft", "cancelled"): [put(tailnum, 1)],
        ("aircraft", "rolling_delay"): [append(tailnum, 7.5)],
        ("aircraft", "late_streak"): [put(tailnum, 0)],
        ("aircraft", "routes"): [put(tailnum, 1, user_key="JFK-BOS")],
        ("carrier", "record"): [put("UA", RECORD)],
    }
