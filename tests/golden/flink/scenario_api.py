"""The names that scenarios are written with: PyFlink's while they are recorded, ours while they are replayed.

`from scenario_api import KeyedProcessFunction, Types, …` gives the class of the side that the environment variable
`SCENARIOS_ON` names: `pyflink`, or `state_engine`, which is the default. A name that a side does not have is an
`ImportError`.
"""

import importlib
import os
from typing import Any

SIDES = {
    "pyflink": (
        "pyflink.datastream.functions",
        "pyflink.datastream.state",
        "pyflink.datastream.window",
        "pyflink.datastream",
        "pyflink.common",
    ),
    "state_engine": ("state_engine.api", "state_engine.api.windows"),
}
SIDE = os.environ.get("SCENARIOS_ON", "state_engine")


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for place in SIDES[SIDE]:
            module = importlib.import_module(place)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"{SIDE} has no {name}")
