"""Writes a new project from the files in `template`, in which `my_streams` stands for its name."""

import importlib.util
import keyword
import re
import shutil
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from state_engine.errors import LakestateError

PLACEHOLDER = "my_streams"
_SUFFIX = ".tmpl"
_HIDDEN = ("env", "gitignore")  # whose names begin with a dot, so that neither git nor a build leaves the template out
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class NewProjectError(LakestateError):
    """A project cannot be created here, or with this name; nothing was written."""


def create_project(folder: Path) -> list[Path]:
    """Creates a project in a new or empty folder, whose name becomes that of its package.

    Args:
        folder: The folder. Hyphens in its name become underscores in the package.

    Returns:
        The files, relative to the folder, in the order of their names.

    Raises:
        NewProjectError: The folder has files, or its name is no name for a package.
    """
    folder = folder.absolute()
    name = _package(folder.name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NewProjectError(f"{folder} exists and is not empty.", action="Name a folder that is new or empty.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        made_folder = Path(made) / "project"
        _write(files("lakestate.init") / "template", made_folder, name)
        written = sorted(path.relative_to(made_folder) for path in made_folder.rglob("*") if path.is_file())
        if folder.exists():
            folder.rmdir()
        shutil.move(made_folder, folder)
    return written


def _package(name: str) -> str:
    """Returns the package's name for a folder's name."""
    package = name.replace("-", "_")
    if not _NAME.fullmatch(package) or keyword.iskeyword(package):
        raise NewProjectError(
            f"{name!r} cannot be the name of a Python package.",
            action="Name the folder with small letters, digits, - and _; it begins with a letter.",
        )
    if package == "tests" or importlib.util.find_spec(package) is not None:
        raise NewProjectError(
            f"There is a package {package!r} already, which the project's own would hide.",
            action="Name the folder otherwise.",
        )
    return package


def _write(source: Traversable, target: Path, name: str) -> None:
    """Writes a folder of the template, with the project's name in place of the placeholder."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.is_dir():
            _write(entry, target / entry.name.replace(PLACEHOLDER, name), name)
        elif entry.name.endswith(_SUFFIX):
            plain = entry.name.removesuffix(_SUFFIX)
            text = entry.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
            (target / (f".{plain}" if plain in _HIDDEN else plain)).write_text(text, encoding="utf-8")


__all__ = ["PLACEHOLDER", "NewProjectError", "create_project"]
