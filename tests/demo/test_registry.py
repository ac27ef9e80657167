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


@pytest.mark.parametrize("name", ["flights", "orders"])
def test_an_example_is_built_in_and_not_imported_for_a_list(
    announce: list[importlib.metadata.EntryPoint], name: str
) -> None:
    assert registered_jobs()[name].value == f"lakestate.examples.{name}.job:build"


def test_a_job_of_another_distribution_is_found(
    announce: list[importlib.metadata.EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("shop_jobs")
    module.build = lambda spark, root, options: (spark, root, options)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_jobs", module)
    announce.append(importlib.metadata.EntryPoint("invoices", "shop_jobs:build", GROUP))
    assert load_job("invoices")(None, "r", {}) == (None, "r", {})


@pytest.mark.parametrize(
    ("name", "value", "wanted", "message"),
    [
        ("invoices", "shop:build", "invoices", "cannot be imported"),
        ("invoices", "json:nothing", "invoices", "cannot be imported"),
        ("invoices", "json:__name__", "invoices", "is no function"),
        ("invoices", "shop:build", "invoice", "there are flights, invoices, orders"),
        ("flights", "shop:build", "invoices", "'flights' is registered twice"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    announce: list[importlib.metadata.EntryPoint], name: str, value: str, wanted: str, message: str
) -> None:
    announce.append(importlib.metadata.EntryPoint(name, value, GROUP))
    with pytest.raises(JobDefinitionError, match=message):
        load_job(wanted)
