"""What pages take as given: `given/docs/rescale.py` defines it for `docs/rescale.md`.

Such a file has a generator `given`. Its parameters are fixtures of pytest. It yields the names that the page's blocks
may use. What comes after the `yield` runs when the page was read: it checks what the page says about its examples.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from blocks import blocks_of

GIVEN = Path(__file__).parent / "given"
_STARTS_A_JVM = re.compile(r"\b(local_session|getOrCreate)\(|\bStreamExecutionEnvironment\b")


def file_of(page: str) -> Path:
    """Returns the file that may define what a page takes as given."""
    return (GIVEN / page).with_suffix(".py")


@cache
def generator_of(page: str) -> Callable[..., Iterator[dict[str, Any]]] | None:
    """Returns the function `given` of a page, if it has one."""
    file = file_of(page)
    if not file.exists():
        return None
    spec = spec_from_file_location(f"given.{page.replace('/', '.')}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    generator: Callable[..., Iterator[dict[str, Any]]] = module.given
    return generator


def needs_spark(page: str) -> bool:
    """Returns whether a JVM is needed to read a page."""
    generator = generator_of(page)
    python = "\n".join(block.text for block in blocks_of(page) if block.language == "python")
    asked = generator is not None and "spark" in inspect.signature(generator).parameters
    return asked or _STARTS_A_JVM.search(python) is not None


@contextmanager
def given_to(page: str, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Yields the names that a page takes as given."""
    generator = generator_of(page)
    if generator is None:
        yield {}
        return
    fixtures = {name: request.getfixturevalue(name) for name in inspect.signature(generator).parameters}
    with contextmanager(generator)(**fixtures) as names:
        yield names
