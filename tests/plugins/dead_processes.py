"""Processes that died while they held something."""

from contextlib import AbstractContextManager
from typing import Any

_HELD: list[AbstractContextManager[Any]] = []


def die_holding(context: AbstractContextManager[Any]) -> None:
    """Enters a context for a process that then dies: nothing ever leaves it.

    The context is kept for ever. Otherwise it would be left when it is collected, during any other test.
    """
    context.__enter__()
    _HELD.append(context)


__all__ = ["die_holding"]
