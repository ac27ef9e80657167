"""The code location of a live Dagster: the jobs that tests have declared, as `LiveDagster` left them in a file.

Its folder is that of the environment variable `LIVE_DAGSTER`.
"""

import os
import pickle
from pathlib import Path

import dagster as dg
from live_dagster import FOLDER

from lakestate.resources import StateStoreResource
from lakestate.stream_definitions import build_stream_definitions


@dg.asset
def live() -> None:
    """Something to load while no job is declared."""


def load() -> dg.Definitions:
    """Returns the definitions of all declared jobs."""
    folder = Path(os.environ[FOLDER])
    declared = pickle.loads((folder / "jobs.pickle").read_bytes())
    state_store = StateStoreResource(root=str(folder / "state"))
    streams = [build_stream_definitions(job, state_store, **arguments) for job, arguments in declared.items()]
    return dg.Definitions.merge(dg.Definitions(assets=[live]), *streams)


defs = load()
