"""Known faults: what a test generator leaves out until the fault is fixed, and why.

Each entry is one fault. A generator of programs calls `known(name)` and leaves out programs that would cause the fault.
A test marked `@shows(name, ...)` shows the fault and is expected to fail. To fix a fault, delete its entry and the
omissions in the files that the entry names; then the test must pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class KnownFault:
    """A fault that tests leave out.

    Attributes:
        name: The name that generators and tests use.
        fault: What goes wrong, in a sentence.
        asked_by: The files that leave it out, relative to the repository.
    """

    name: str
    fault: str
    asked_by: tuple[str, ...]


KNOWN_FAULTS: tuple[KnownFault, ...] = ()

_NAMES = frozenset(entry.name for entry in KNOWN_FAULTS)


def known(name: str) -> bool:
    """Returns whether a fault is still in the list."""
    return name in _NAMES


def shows(
    name: str, raises: type[BaseException] | tuple[type[BaseException], ...] = AssertionError
) -> Callable[[Any], Any]:
    """Marks the test that shows a known fault: it must fail as long as the entry exists, and pass afterwards.

    Args:
        name: The entry.
        raises: How the test fails; another exception is a failure of the test.
    """
    entry = next((entry for entry in KNOWN_FAULTS if entry.name == name), None)
    if entry is None:
        return lambda test: test
    return pytest.mark.xfail(strict=True, raises=raises, reason=entry.fault)


__all__ = ["KNOWN_FAULTS", "KnownFault", "known", "shows"]
