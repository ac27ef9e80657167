"""Functions whose source is made for one type: one line for each field, instead of a loop with a call for each.

They run for every value that a function stores. The source has only what this package writes, names of attributes that
`row_class` has checked, and names for objects; the text of a schema never gets into it.
"""

from functools import lru_cache
from types import CodeType
from typing import Any


class Code:
    """The objects that the source of a function names."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}

    def name(self, value: object) -> str:
        """Returns the name of an object in the source."""
        name = f"n{len(self._names)}"
        self._names[name] = value
        return name

    def function(self, *lines: str) -> Any:
        """Returns the function that a lambda, or the lines of a definition, make."""
        names = dict(self._names)
        if lines[0].startswith("lambda"):
            return eval(_compiled(lines[0], "eval"), names)
        exec(_compiled("\n".join(lines), "exec"), names)
        return names[lines[0].removeprefix("def ").partition("(")[0]]


@lru_cache(maxsize=1024)
def _compiled(source: str, mode: str) -> CodeType:
    """Types of one form have one source. A state is opened often, and compiling takes most of the time of that."""
    return compile(source, "<made for a type>", mode)


__all__ = ["Code"]
