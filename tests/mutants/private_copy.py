"""Copies of the package and its tests, so that a planted bug never touches the checkout."""

import os
import shutil
from pathlib import Path

from mutant import DoesNotApplyError, Mutant

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
GUARD = "mutant_guard"
"""Plugin of the inner pytest; it is in the root of each copy, which is on the path."""

PARTS = ("state_engine", "tests", "pyproject.toml")
_LEFT_OUT = shutil.ignore_patterns("mutants", ".hypothesis", "*.tmp")


def copy_checkout(folder: Path) -> Path:
    """Copies the files that the tests of the engine need, with compiled files; returns the folder."""
    folder.mkdir(parents=True)
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=_LEFT_OUT)
        else:
            shutil.copy2(ROOT / part, folder / part)
    shutil.copy2(HERE / f"{GUARD}.py", folder)
    return folder


def copy_with(mutant: Mutant, package: Path, folder: Path) -> Path:
    """Makes a copy of a copy, with a bug in it. All files are hard links, except the module that has the bug.

    Args:
        mutant: The bug.
        package: The copy that `copy_checkout` made.
        folder: The new copy.

    Raises:
        DoesNotApplyError: The bug cannot be planted.
    """
    shutil.copytree(package, folder, copy_function=os.link)
    file = folder / mutant.path
    if not file.exists():
        raise DoesNotApplyError(f"{mutant.id}: there is no file {mutant.path}")
    planted = mutant.plant(file.read_text(encoding="utf-8"))
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()
    file.unlink()  # it is a link: writing to it would change the original
    file.write_text(planted, encoding="utf-8")
    return folder
