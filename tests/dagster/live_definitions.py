"""The code location of a live Dagster: the jobs that tests have declared, as `LiveDagster` left them in a file.

Its folder is that of the environment variable `LIVE_DAGSTER`.
"""

import os
import pickle
import time
from pathlib import Path
from typing import Any

import dagster as dg
from live_dagster import FOLDER, HELD, HOLD

from lakestate.resources import StateStoreResource
from lakestate.stream_definitions import build_stream_definitions
from state_engine.savepoint import key_groups


@dg.asset
def live() -> None:
    """An asset to load while no job is declared."""


def hold(point: str) -> None:
    """Waits at a named place of a run for as long as a test wants, for instance to kill the run there."""
    wanted, held = (Path(os.environ[FOLDER]) / name for name in (HOLD, HELD))
    while wanted.exists() and wanted.read_text() == point:
        held.write_text(point)
        time.sleep(0.1)


def held_seal(*arguments: Any) -> Any:
    """Seals an epoch in which key groups are restored; a test may hold the run before and after the seal."""
    kind = arguments[1].kind
    hold(f"before {kind}")
    verdict = sealed(*arguments)
    hold(f"after {kind}")
    return verdict


sealed, key_groups.seal = key_groups.seal, held_seal


def load() -> dg.Definitions:
    """Returns the definitions of all declared jobs."""
    folder = Path(os.environ[FOLDER])
    declared = pickle.loads((folder / "jobs.pickle").read_bytes())
    state_store = StateStoreResource(root=str(folder / "state"))
    streams = [build_stream_definitions(job, state_store, **arguments) for job, arguments in declared.items()]
    return dg.Definitions.merge(dg.Definitions(assets=[live]), *streams)


defs = load()
