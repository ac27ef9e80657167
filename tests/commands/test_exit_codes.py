"""One table with the exit codes of every verb: 0 done, 1 failed, 2 wrong use or missing."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import typer

from lakestate.cli import app
from lakestate.control import Endpoint, publish_endpoint
from state_engine.log.paths import manifest_path

ID = "0" * 32


def sound(job: Any, stack: ExitStack) -> None:
    """The job as it is: stopped, without a savepoint."""


def damaged(job: Any, stack: ExitStack) -> None:
    """The newest manifest is damaged."""
    Path(job.root, "flights", manifest_path(1, 4)).write_bytes(b"{}")


def hanging(job: Any, stack: ExitStack) -> None:
    """A process holds the job, and does not answer."""
    endpoint = Endpoint(url="http://127.0.0.1:1", pid=os.getpid(), incarnation="abc")
    stack.enter_context(publish_endpoint(job.root, "flights", endpoint))


def kept(job: Any, stack: ExitStack) -> None:
    """There is a savepoint, `{0}`."""


def robbed(job: Any, stack: ExitStack) -> None:
    """There is a savepoint, `{0}`, and one of its files is gone."""
    for file in Path(job.root, "flights").glob("_epochs/g*/bases/*"):
        file.unlink()


Prepare = Callable[[Any, ExitStack], None]
CASES: list[tuple[int, Prepare, str]] = [
    (0, sound, "list"),
    (0, damaged, "list"),  # one that is damaged does not hide the others
    (2, sound, "list --no-such-option"),
    (0, sound, "status flights"),
    (0, hanging, "status flights"),
    (1, damaged, "status flights"),
    (2, sound, "status nope"),
    (0, sound, "checkpoints flights"),
    (1, damaged, "checkpoints flights"),
    (2, sound, "checkpoints nope"),
    (2, sound, "checkpoints flights --limit 0"),
    (0, sound, "top flights --once"),
    (1, damaged, "top flights --once"),
    (2, sound, "top nope"),
    (0, sound, "inspect flights count"),
    (1, damaged, "inspect flights count"),
    (2, sound, "inspect flights nope"),
    (0, sound, "sql --job flights"),
    (1, damaged, "sql --job flights"),
    (2, sound, "sql --job nope"),
    (0, sound, "savepoint flights"),
    (0, hanging, "savepoint flights"),  # it is taken from the files
    (1, hanging, "savepoint flights --detached"),
    (1, damaged, "savepoint flights"),
    (2, sound, "savepoint flights --epoch 9"),
    (2, sound, "savepoint flights --type copied"),
    (2, sound, "savepoint flights --detached"),
    (0, sound, "savepoints list flights"),
    (2, sound, "savepoints list ../flights"),
    (0, kept, "savepoints show flights {0}"),
    (1, robbed, "savepoints show flights {0}"),
    (2, sound, "savepoints show flights sp-1"),
    (0, kept, "savepoints validate flights {0} --without-code"),
    (1, kept, "savepoints validate flights {0}"),
    (1, robbed, "savepoints validate flights {0}"),
    (2, sound, "savepoints validate flights sp-1"),
    (0, kept, "savepoints dispose flights {0}"),
    (2, sound, "savepoints dispose flights sp-1"),
    (0, sound, "savepoints diff flights epoch:1/2 latest"),
    (1, damaged, "savepoints diff flights epoch:1/2 latest"),
    (2, sound, "savepoints diff flights epoch:1/9 latest"),
    (1, hanging, "stop flights"),
    (2, sound, "stop flights"),
    (1, hanging, "cancel flights"),
    (2, sound, "cancel flights"),
    (1, hanging, "rescale flights 2"),
    (2, sound, "rescale flights 2"),
    (2, hanging, "rescale flights"),
    (1, hanging, "checkpoint flights"),
    (2, sound, "checkpoint flights"),
    (1, hanging, f"operation flights {ID}"),
    (2, sound, f"operation flights {ID}"),
    (2, sound, "run nope"),
    (2, sound, "start nope"),
    (2, hanging, "start flights"),
    (2, sound, "explain nope"),
    (2, sound, "demo --records 1"),
    (2, sound, "no-such-verb"),
]
ELSEWHERE = {"retain", "compact", "restore", "up", "down", "init", "dagster"}
"""Verbs with exit codes that the tests of their own files check."""


@pytest.mark.parametrize(("code", "prepare", "line"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
def test_how_it_ends(job, code: int, prepare: Prepare, line: str) -> None:
    savepoint_id = job.run("savepoint", "flights").out.split()[0] if "{0}" in line else ""
    with ExitStack() as stack:
        prepare(job, stack)
        ended = job.run(*line.format(savepoint_id).split())
    assert ended.code == code, ended.err
    if code == 1 and not line.startswith("savepoints validate"):
        assert ended.out == ""
        assert " What to do: " in ended.err
    if code == 2:
        assert ended.out == ""
        assert ended.err


def test_every_verb_is_in_the_table() -> None:
    group = typer.main.get_command(app)
    verbs = set(group.commands) - ELSEWHERE  # type: ignore[attr-defined]
    assert verbs == {line.split()[0] for _, _, line in CASES} - {"no-such-verb"}
