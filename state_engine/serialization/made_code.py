"""Functions whose source is made for one type: one line for each field, instead of a loop with a call for each.

They run for every value that a function stores. The source has only what this package writes, names of attributes that
`row_class` has checked, and names for objects; the text of a schema never gets into it.
"""

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
        if lines[0].startswith("lambda"):
            return eval(lines[0], self._names)
        names = dict(self._names)
        exec("\n".join(lines), names)
        return names[lines[0].removeprefix("def ").partition("(")[0]]


__all__ = ["Code"]
