"""Imports packages that only an extra brings, and says which extra to install where one is missing."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from state_engine.errors import MissingExtraError


@contextmanager
def from_extra(extra: str) -> Iterator[None]:
    """Imports the packages of an extra: put their import statements into its `with` block.

    Args:
        extra: Its name in `pyproject.toml`.

    Raises:
        MissingExtraError: A package that is imported in the block is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "lakestate", "state_engine"):
            raise
        raise _missing([package], extra) from error


def check_extra(extra: str, *packages: str) -> None:
    """Checks that packages of an extra are installed, without importing them.

    Raises:
        MissingExtraError: Some are not.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise _missing(missing, extra)


def _missing(packages: list[str], extra: str) -> MissingExtraError:
    what = f"The package {packages[0]} is" if len(packages) == 1 else f"The packages {' and '.join(packages)} are"
    return MissingExtraError(f"{what} not installed.", action=f"Install the extra: pip install 'lakestate[{extra}]'.")


__all__ = ["check_extra", "from_extra"]
