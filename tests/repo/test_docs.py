"""The pages agree with the code: links, names, variables, parameters."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
ROOMS = sorted(
    readme
    for place in ("state_engine/*", "assets", "resources", "examples/*", "platform/lakestate", "benchmarks")
    for readme in ROOT.glob(f"{place}/README.md")
)
CODE = ("state_engine", "platform", "assets", "resources", "examples", "benchmarks")
PYTHON_FILES = [path for place in (*CODE, "tests", "scripts") for path in (ROOT / place).rglob("*.py")]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"``(.+?)``|`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
DOTTED = re.compile(r"(?<![\w/.-])(?:state_engine|lakestate)(?:\.[A-Za-z_]\w*)+")
VARIABLE = re.compile(r"\bLAKESTATE_[A-Z_]+\b")
TEST_FILE = re.compile(r"tests/[\w/]+\.py")
NAMES_IN_FILE = re.compile(r"`([\w/]+\.py)`,? \(?((?:`(?![\w.]*\.(?:py|json|md)`)[A-Za-z_][\w.]*`(?:, | and )?)+)")

NO_PYTHON_NAMES = {
    "lakestate.manifest",  # formats of documents
    "lakestate.base",
    "lakestate.pin",
    "lakestate.savepoint",
    "lakestate.floor",
    "lakestate.condemned",
    "lakestate.lease",
    "lakestate.birth",
    "lakestate.digest",  # in logs of Delta tables
    "lakestate.sha256",
    "lakestate.show",  # a setting
    "lakestate.jobs",  # an entry point group
    "lakestate.assets.x",  # an example of any module
}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> Iterator[str]:
    return (double or single for double, single in SPAN.findall(prose(page)))


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as GitHub makes it."""
    plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower())
    return plain.replace(" ", "-")


def resolve(dotted: str) -> Any:
    """Imports the longest prefix that is a module, and follows attributes from there."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name is None or not dotted.startswith(error.name):
                raise
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("page", [*PAGES, *ROOMS], ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / unquote(path) if path else page
        headings = (
            re.findall(r"^#+ (.+)$", prose(target), re.MULTILINE) if target.suffix == ".md" and target.is_file() else []
        )
        if not target.exists() or (anchor and anchor not in map(slug, headings)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_dotted_names_can_be_imported(page: Path) -> None:
    unknown = []
    for dotted in sorted({found for span in spans(page) for found in DOTTED.findall(span)} - NO_PYTHON_NAMES):
        try:
            resolve(dotted)
        except (ImportError, AttributeError) as error:
            unknown.append(f"{dotted}: {error}")
    assert not unknown


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_pages_compiles_and_imports_what_is_there(page: Path) -> None:
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(block))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("state_engine", "lakestate"):
                module = importlib.import_module(node.module or "")
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{node.module} has no {missing}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tests_that_pages_name_exist(page: Path) -> None:
    gone = {path for path in TEST_FILE.findall(page.read_text(encoding="utf-8")) if not (ROOT / path).is_file()}
    assert not gone


@pytest.mark.parametrize("page", [*PAGES, *ROOMS], ids=name_of)
def test_names_that_pages_look_for_in_a_file_are_there(page: Path) -> None:
    """As in "`driver.py` (`EpochDriver._put`)", or "`layout.py`, `make_table`"."""
    missing = []
    for path, names in NAMES_IN_FILE.findall(prose(page)):
        texts = [p.read_text(encoding="utf-8") for p in PYTHON_FILES if f"/{p.relative_to(ROOT)}".endswith(f"/{path}")]
        for name in re.findall(r"`(?:\w+\.)*(\w+)`", names):
            if not any(re.search(rf"\b{name}\b", text) for text in texts):
                missing.append(f"{path}: {name}")
    assert not missing


@pytest.mark.parametrize("readme", ROOMS, ids=name_of)
def test_files_that_a_room_lists_exist(readme: Path) -> None:
    listed = [cell for line in prose(readme).splitlines() if line.startswith("| `") for cell in line.split("|")[1:2]]
    files = {span for cell in listed for span in re.findall(r"`([\w.]+\.\w+)`", cell)}
    assert not {name for name in files if not (readme.parent / name).is_file()}


def test_environment_variables_are_documented_and_exist() -> None:
    in_code = set(VARIABLE.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    for folder in CODE:
        for file in (ROOT / folder).rglob("*.py"):
            in_code.update(VARIABLE.findall(file.read_text(encoding="utf-8")))
    documented = set(VARIABLE.findall((DOCS / "configuration.md").read_text(encoding="utf-8")))
    assert documented == in_code


@pytest.mark.parametrize(
    ("heading", "dotted"),
    [
        ("`StreamJob`", "state_engine.spark.StreamJob"),
        ("`StreamJob.start`", "state_engine.spark.StreamJob.start"),
        ("`local_session`", "state_engine.spark.local_session"),
        ("`python -m lakestate.runner JOB`", "lakestate.runner.run"),
    ],
)
def test_parameters_are_documented_and_exist(heading: str, dotted: str) -> None:
    named_in_heading = {word.lower() for word in re.findall(r"\b[A-Z]+\b", heading)}
    parameters = set(inspect.signature(resolve(dotted)).parameters) - {"self"} - named_in_heading
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(?:--)?([\w-]+)", section, re.MULTILINE)
    assert sorted(name.replace("-", "_") for name in rows) == sorted(parameters)


def test_every_public_name_of_the_api_is_in_the_page_about_pyflink() -> None:
    from state_engine import api

    words = {word for span in spans(DOCS / "pyflink.md") for word in re.findall(r"\w+", span)}
    assert not set(api.__all__) - words


def test_options_of_sources_are_documented_as_they_are_decided() -> None:
    from state_engine.epoch.source_options import FORMATS

    section = prose(DOCS / "seeding.md").split("\n## Sources that change\n")[1].split("\n#")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line][2:]
    documented = {row[0].split(" (")[0]: tuple(tuple(re.findall(r"`([^`]+)`", cell)) for cell in row) for row in rows}
    assert documented == {row.name: (row.kinds, row.free, row.inert, row.ask) for row in FORMATS}
