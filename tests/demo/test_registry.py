"""The registry finds jobs by name."""

import importlib.metadata
import sys
import types
from pathlib import Path

import pytest

from lakestate.registry import GROUP, AnyOption, MissingOptionError, build_dry, load_job, registered_jobs
from state_engine.errors import JobDefinitionError
from state_engine.spark import StreamJob


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> list[importlib.metadata.EntryPoint]:
    """Entry points that other distributions announce."""
    entries: list[importlib.metadata.EntryPoint] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [e for e in entries if e.group == group])
    return entries


@pytest.mark.parametrize("name", ["flights", "fraud", "orders"])
def test_an_example_is_built_in_and_not_imported_for_a_list(
    announce: list[importlib.metadata.EntryPoint], name: str
) -> None:
    assert registered_jobs()[name].value == f"lakestate.examples.{name}.job:build"


def test_a_job_of_another_distribution_is_found(
    announce: list[importlib.metadata.EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("shop_jobs")
    module.build = lambda spark, root, options: StreamJob(options["name"], root=root)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_jobs", module)
    announce.append(importlib.metadata.EntryPoint("invoices", "shop_jobs:build", GROUP))
    build = load_job("invoices")
    assert build(None, "/r", {"name": "invoices"}).root == "/r"
    with pytest.raises(JobDefinitionError, match="registered as 'invoices', but it builds the job 'others'"):
        build(None, "/r", {"name": "others"})
    with pytest.raises(MissingOptionError, match="'invoices' needs the option 'name'; options given: input") as missing:
        build(None, "/r", {"input": "x"})
    assert "-o name=" in missing.value.action
    assert isinstance(missing.value, KeyError), "a factory may have a default of its own"


@pytest.mark.parametrize(("returned", "told"), [(None, "returned None"), (5, "returned int")])
def test_a_factory_that_returns_no_job_is_an_error(
    announce: list[importlib.metadata.EntryPoint], monkeypatch: pytest.MonkeyPatch, returned: object, told: str
) -> None:
    module = types.ModuleType("shop_jobs")
    module.build = lambda *_: returned  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_jobs", module)
    announce.append(importlib.metadata.EntryPoint("invoices", "shop_jobs:build", GROUP))
    with pytest.raises(JobDefinitionError, match=told):
        build_dry("invoices")


def test_what_a_job_prints_while_it_is_built_is_not_in_the_answer(
    announce: list[importlib.metadata.EntryPoint], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(spark: object, root: str, options: dict[str, str]) -> StreamJob:
        print("reading", options["input"])
        return StreamJob("invoices", root=root)

    module = types.ModuleType("shop_jobs")
    module.build = build  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_jobs", module)
    announce.append(importlib.metadata.EntryPoint("invoices", "shop_jobs:build", GROUP))
    assert build_dry("invoices").root == "/<root>"
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "reading /<input>\n")


@pytest.mark.parametrize(
    ("name", "value", "wanted", "message"),
    [
        ("invoices", "shop:build", "invoices", "cannot be imported"),
        ("invoices", "json:nothing", "invoices", "cannot be imported"),
        ("invoices", "json:__name__", "invoices", "is not a function"),
        ("invoices", "shop:build", "invoice", "Registered jobs: flights, fraud, invoices, orders, visits"),
        ("flights", "shop:build", "invoices", "'flights' is registered twice"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    announce: list[importlib.metadata.EntryPoint], name: str, value: str, wanted: str, message: str
) -> None:
    announce.append(importlib.metadata.EntryPoint(name, value, GROUP))
    with pytest.raises(JobDefinitionError, match=message):
        load_job(wanted)


def test_a_job_of_the_project_in_the_working_directory_is_found(
    announce: list[importlib.metadata.EntryPoint], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "pyproject.toml").write_text(f'[project.entry-points."{GROUP}"]\nbills = "here_only:build"\n')
    (tmp_path / "here_only.py").write_text("def build(spark, root, options):\n    return options['none']\n")
    assert registered_jobs()["bills"].value == "here_only:build"
    with pytest.raises(MissingOptionError, match="'bills' needs the option 'none'"):
        load_job("bills")(None, "/r", {})
    (tmp_path / "pyproject.toml").write_text("[project\n")
    with pytest.raises(JobDefinitionError, match=r"pyproject\.toml cannot be read"):
        registered_jobs()


def test_a_plan_does_not_contain_the_place_of_a_default(announce: list[importlib.metadata.EntryPoint]) -> None:
    options = AnyOption({"given": "x"})
    assert options.get("given", "/home/me/x") == "x"
    assert options.get("tables", "/home/me/tables") == "/<tables>"
    assert (options.get("limit", "5"), options.get("other")) == ("5", None)
