"""The reference of the site has each public name, and its lists have each page; `make docs` checks the links."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
API = DOCS / "reference" / "api"
ENTRY = re.compile(r"^\.\. auto(?:class|function|exception|data):: ([\w.]+)$", re.MULTILINE)
CURRENT = re.compile(r"^\.\. currentmodule:: ([\w.]+)$", re.MULTILINE)
WHOLE_MODULE = re.compile(r"^\.\. automodule:: ([\w.]+)$", re.MULTILINE)

MODULES = [page.stem for page in sorted(API.glob("*.md")) if page.stem != "index"]


def names_of(module: str) -> list[str]:
    return list(importlib.import_module(module).__all__)


def entries(page: Path) -> list[str]:
    """Returns the full names of all entries of a page."""
    text = page.read_text(encoding="utf-8")
    module = CURRENT.search(text)
    named = [name if "." in name or not module else f"{module[1]}.{name}" for name in ENTRY.findall(text)]
    whole = [
        f"{found}.{name}" for found in WHOLE_MODULE.findall(text) for name in importlib.import_module(found).__all__
    ]
    return named + whole


def resolve(dotted: str) -> object:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


ALL_ENTRIES = [name for module in MODULES for name in entries(API / f"{module}.md")]


def test_the_public_modules_have_a_page() -> None:
    rooms = {
        "state_engine.api",
        "state_engine.api.windows",
        "state_engine.spark",
        "state_engine.flink",
        "state_engine.savepoint",
        "state_engine.testing",
        "state_engine.inspect",
        "state_engine.errors",
        "lakestate.dagster",
        "lakestate.policies",
        "lakestate.resources",
        "lakestate.errors",
    }
    assert not rooms - set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_entry(module: str) -> None:
    documented = [resolve(name) for name in ALL_ENTRIES]
    imported = importlib.import_module(module)
    missing = [name for name in imported.__all__ if not any(getattr(imported, name) is one for one in documented)]
    assert not missing, f"add them to docs/reference/api/{module}.md"


@pytest.mark.parametrize("name", ALL_ENTRIES)
def test_every_entry_has_a_docstring_of_its_own(name: str) -> None:
    found = resolve(name)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        pytest.skip("a constant; its docstring is a comment to Python")
    assert vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__, name


def test_no_name_has_two_entries() -> None:
    assert len(ALL_ENTRIES) == len(set(ALL_ENTRIES))


@pytest.mark.parametrize(
    ("page", "folder"),
    [
        ("reference/formats.md", "formats"),
        ("how-it-works/decisions.md", "adr"),
        ("runbooks/README.md", "runbooks"),
        ("reference/api/index.md", "reference/api"),
    ],
)
def test_a_list_has_every_page_of_its_folder(page: str, folder: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    files = {file.name for file in (DOCS / folder).glob("*.md")} - {Path(page).name}
    linked = {Path(link).name for link in re.findall(r"\]\(([^)#]+)", text)}
    assert not files - linked
