"""Jobs by name."""

import importlib.metadata
import sys
import types

import pytest

from lakestate.registry import GROUP, load_job, registered_jobs
from state_engine.errors import JobDefinitionError


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> list[importlib.metadata.EntryPoint]:
    """Entry points that other distributions announce."""
    entries: list[importlib.metadata.EntryPoint] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [e for e in entries if e.group == group])
    return entries


def test_flights_is_built_in_and_not_imported_for_a_list(announce: list[importlib.metadata.EntryPoint]) -> None:
    assert registered_jobs()["flights"].value == "lakestate.examples.flights.job:build"


def test_a_job_of_another_distribution_is_found(
    announce: list[importlib.metadata.EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("shop_jobs")
    module.build = lambda spark, root, options: (spark, root, options)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_jobs", module)
    announce.append(importlib.metadata.EntryPoint("orders", "shop_jobs:build", GROUP))
    assert load_job("orders")(None, "r", {}) == (None, "r", {})


@pytest.mark.parametrize(
    ("name", "value", "wanted", "message"),
    [
        ("orders", "shop:build", "orders", "cannot be imported"),
        ("orders", "json:nothing", "orders", "cannot be imported"),
        ("orders", "json:__name__", "orders", "is no function"),
        ("orders", "shop:build", "order", "there are flights, orders"),
        ("flights", "shop:build", "orders", "'flights' is registered twice"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    announce: list[importlib.metadata.EntryPoint], name: str, value: str, wanted: str, message: str
) -> None:
    announce.append(importlib.metadata.EntryPoint(name, value, GROUP))
    with pytest.raises(JobDefinitionError, match=message):
        load_job(wanted)
