"""The code location: all registered jobs, with their state under `LAKESTATE_ROOT`.

The default is where `lakestate demo --dir .lakestate` leaves it, seen from the folder that Dagster is started in.
"""

import os
from datetime import timedelta
from pathlib import Path

import dagster as dg

from lakestate.policies import StreamPolicies
from lakestate.registry import registered_jobs
from lakestate.resources import StateStoreResource
from lakestate.stream_definitions import build_stream_definitions

ROOT = "LAKESTATE_ROOT"
DEFAULT_ROOT = ".lakestate/state"


def load_definitions() -> dg.Definitions:
    """Returns the definitions of all registered jobs."""
    state_store = StateStoreResource(root=os.environ.get(ROOT) or str(Path(DEFAULT_ROOT).absolute()))
    policies = StreamPolicies(report_every=timedelta(seconds=10), fresh_within=timedelta(hours=1))
    return dg.Definitions.merge(*(build_stream_definitions(job, state_store, policies) for job in registered_jobs()))


defs = load_definitions()

__all__ = ["DEFAULT_ROOT", "ROOT", "defs", "load_definitions"]
