"""Writes a project from the template in the package."""

import keyword
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from lakestate.errors import ProjectError

_NAME = "my_streams"
_SUFFIX = ".template"
_ALLOWED = re.compile(r"[a-z][a-z0-9_]*")


def write_project(name: str, folder: Path) -> list[Path]:
    """Writes a project, and returns its files, relative to the folder.

    Args:
        name: Of the project and its package: lower-case letters, digits and underscores.
        folder: Where to write it: a folder that does not exist yet, or is empty.

    Raises:
        ProjectError: The name cannot be that of a package, or the folder contains something.
    """
    if not _ALLOWED.fullmatch(name) or keyword.iskeyword(name) or name in ("lakestate", "state_engine", "dagster"):
        raise ProjectError(
            f"A project cannot be called {name!r}, since its package has the same name.",
            action="Use lower-case letters, digits and underscores, a letter first, such as my_streams.",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(f"{folder} already contains something.", action="Give another name, or an empty folder.")
    written = []
    for path, template in _templates(files("lakestate.init") / "project", ""):
        target = Path(path.removesuffix(_SUFFIX).replace(_NAME, name))
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        text = template.read_text(encoding="utf-8").replace(_NAME, name)
        (folder / target).write_text(text, encoding="utf-8")
        written.append(target)
    return sorted(written)


def _templates(place: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for one in place.iterdir():
        inner = f"{path}/{one.name}" if path else one.name
        if one.is_dir():
            yield from _templates(one, inner)
        elif one.name.endswith(_SUFFIX):
            yield inner, one


__all__ = ["write_project"]
