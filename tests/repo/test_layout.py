"""The layout of the checkout: rules that no tool checks."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LINKED = ("assets", "resources", "examples")
LONG_FILE = 500
LONGEST_FILE = 800
REASON = "Longer than 500 lines because "
"""The beginning of the line that says why a module of 501 to 800 lines is not split; it is in its docstring."""
LONGEST_ROOM_README = 20
GENERATED = {"requirements.lock", "requirements-bootstrap.txt", "tests/flink/pyflink_api.txt"}


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return [file for file in files if file.is_file()]


def text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_platform_is_not_a_package() -> None:
    offender = ROOT / "platform" / "__init__.py"
    assert not offender.exists(), (
        f"{offender} shadows the standard library's `platform` under `python -m`, with PYTHONPATH=. and in Spark's "
        "Python workers. platform/ is a source root: delete the file (docs/adr/0001-import-names.md)."
    )


@pytest.mark.parametrize("name", ["state_engine", "platform/lakestate", *LINKED])
def test_the_root_folders_are_packages(name: str) -> None:
    assert (ROOT / name / "__init__.py").is_file()


@pytest.mark.parametrize("name", LINKED)
def test_lakestate_reaches_the_root_folders_by_relative_links(name: str) -> None:
    link = ROOT / "platform" / "lakestate" / name
    assert link.is_symlink(), (
        f"{link} is not a link; on Windows set `git config core.symlinks true` and check out again"
    )
    assert link.readlink() == Path("..", "..", name)


@pytest.mark.parametrize("name", ["state_engine", "lakestate"])
def test_packages_are_typed(name: str) -> None:
    folder = ROOT / name if name == "state_engine" else ROOT / "platform" / name
    assert (folder / "py.typed").is_file()


def test_the_version_is_the_same_everywhere() -> None:
    import state_engine

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert state_engine.__version__ == project["version"] == version("lakestate")


def test_the_lock_satisfies_the_project() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *pyproject["project"]["dependencies"],
        *(line for lines in pyproject["project"]["optional-dependencies"].values() for line in lines),
        *(line for lines in pyproject["dependency-groups"].values() for line in lines),
        *pyproject["build-system"]["requires"],
    ]
    locked: dict[str, list[str]] = {}
    for name, release in re.findall(r"^([a-z0-9-]+)==([^ ]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        locked.setdefault(name, []).append(release)
    for requirement in map(Requirement, wanted):
        releases = locked.get(requirement.name, [])
        assert releases, f"{requirement.name} is not in requirements.lock: run `make lock`"
        assert all(requirement.specifier.contains(release) for release in releases), f"{requirement}: run `make lock`"


def test_no_tracked_file_names_a_registry(tracked: list[Path]) -> None:
    hosts = [
        ".".join(parts)
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("pypi", "python", "org"),
            ("repo1", "maven", "org"),
            ("repo", "maven", "apache", "org"),
            ("maven", "org"),
            ("repos", "spark-packages", "org"),
            ("registry", "npmjs", "org"),
            ("proxy", "golang", "org"),
            ("anaconda", "org"),
        )
    ]
    pattern = re.compile("|".join(rf"\b{re.escape(host)}\b" for host in hosts))
    offenders = [str(file.relative_to(ROOT)) for file in tracked if pattern.search(text_of(file))]
    assert not offenders, f"the registry is the installer's setting, not the project's; named in {offenders}"


def test_bytes_that_are_no_text_are_refused_as_other_wrong_bytes_are(tracked: list[Path]) -> None:
    """msgspec raises another error for them, which a handler of `DecodeError` alone would not catch."""
    pattern = re.compile(r"(?:except|suppress)\b.*\bDecodeError\b")
    python = [file for file in tracked if file.suffix == ".py"]
    offenders = [str(file.relative_to(ROOT)) for file in python if pattern.search(text_of(file))]
    assert not offenders, f"use UNDECODABLE of state_engine.text in {offenders}"


def reason_of(text: str, suffix: str) -> str | None:
    """Returns why a file is long: in Python from the docstring of the module, elsewhere from any line; None if unsaid.

    The reason begins a line after the prefixes of comments, and has at least five words.
    """
    searched = (ast.get_docstring(ast.parse(text)) or "") if suffix == ".py" else text
    match = re.search(rf"^(?:[ \t]*(?:#|//|--|\*|<!--)[ \t]*)?{REASON}(\S+(?: \S+){{4,}})", searched, re.MULTILINE)
    return match[1] if match else None


def too_long(lines: int, reason: str | None) -> str | None:
    """Returns what is wrong with a file of this number of lines; None if nothing is."""
    if lines > LONGEST_FILE:
        return f"{lines} lines; at most {LONGEST_FILE}: split it"
    if lines > LONG_FILE and reason is None:
        return f"{lines} lines; over {LONG_FILE} its docstring needs a line '{REASON}…', or split it"
    return None


def test_no_tracked_file_is_too_long(tracked: list[Path], record_property: Callable[[str, object], None]) -> None:
    wrong = {}
    for file in tracked:
        name, text = str(file.relative_to(ROOT)), text_of(file)
        lines = len(text.splitlines())
        if lines <= LONG_FILE or name in GENERATED:
            continue
        reason = reason_of(text, file.suffix)
        print(f"{name} has {lines} lines: {reason or 'no reason given'}")
        record_property(name, f"{lines} lines: {reason}")
        if problem := too_long(lines, reason):
            wrong[name] = problem
    assert not wrong, wrong


def test_a_file_of_more_than_500_lines_needs_a_reason_and_one_of_more_than_800_has_none() -> None:
    reason = "its table must be read as one."
    given = f'"""What it does.\n\n{REASON}{reason}\n"""\n'
    assert reason_of(given, ".py") == reason
    assert reason_of(f"# {REASON}{reason}\n", ".py") is None, "a comment is not the docstring"
    assert reason_of(f'"""It is not {REASON}{reason}"""', ".py") is None, "a line begins with it"
    assert reason_of(f'"""{REASON}it is."""', ".py") is None, "two words are no reason"
    assert reason_of(f"# {REASON}{reason}\n", ".yaml") == reason
    assert too_long(500, None) is None
    assert too_long(501, None) is not None
    assert too_long(800, reason) is None
    assert too_long(801, reason) is not None


def test_room_readmes_are_short(tracked: list[Path]) -> None:
    rooms = ("state_engine", "platform", "assets", "resources")
    readmes = [file for file in tracked if file.name == "README.md" and file.relative_to(ROOT).parts[0] in rooms]
    lengths = {str(file.relative_to(ROOT)): len(text_of(file).splitlines()) for file in readmes}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_ROOM_README}
