"""The uids of one job, given by its author or made from the place, with a warning; and the tables of its sinks."""

import sys
import warnings

from state_engine.api.descriptors import check_name
from state_engine.errors import DuplicateUidError, JobDefinitionError
from state_engine.storage.roots import comparable


class Uids:
    """The uids of one job."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._operators: set[str] = set()
        self._sinks: set[str] = set()
        self._tables: dict[tuple[str, str], str] = {}

    def operator(self, uid: str | None, kind: str) -> str:
        """Returns the uid of an operator.

        Raises:
            DuplicateUidError: Another operator has it.
            JobDefinitionError: None is given and the job is strict, or the uid cannot name a folder.
        """
        if uid is None:
            uid = f"{kind}-{len(self._operators) + 1}".replace("_", "-")
            self._complain(
                f"The operator has no uid; it is called {uid!r} after its place in the job.",
                f"Give {kind.removeprefix('keyed_')}(..., uid=...) a stable name",
                "state",
            )
        if check_name(uid, "an operator") in self._operators:
            raise DuplicateUidError(f"Two operators are called {uid!r}.", action="Give each its own uid.")
        self._operators.add(uid)
        return uid

    def sink(self, uid: str | None, place: str) -> str:
        """Returns the uid of a sink: the author's, or one made from its place.

        Raises:
            DuplicateUidError: Another sink has it.
            JobDefinitionError: None is given and the job is strict, or the uid has characters that names must not have.
        """
        if uid is None:
            uid = place
            self._complain(
                f"The sink has no uid; it is called {uid!r} after its place in the job.",
                "Give sink_to(..., uid=...) a stable name",
                "output",
            )
        if check_name(uid, "a sink") in self._sinks:
            raise DuplicateUidError(f"Two sinks are called {uid!r}.", action="Give each its own uid.")
        self._sinks.add(uid)
        return uid

    def table(self, uid: str, kind: str, table: str) -> None:
        """Claims a table for a sink.

        Raises:
            JobDefinitionError: Another sink of the job writes it.
        """
        other = self._tables.setdefault((kind, comparable(table) if kind == "delta" else table), uid)
        if other != uid:
            raise JobDefinitionError(
                f"Sinks {other!r} and {uid!r} write to one table, {table}.",
                action="Give each its own table, or union() the streams before one sink.",
            )

    def _complain(self, message: str, remedy: str, kept: str) -> None:
        if self._strict:
            raise JobDefinitionError(message, action=f"{remedy}.")
        warnings.warn(f"{message} {remedy} to keep its {kept}.", stacklevel=authors_level())


def authors_level() -> int:
    """Returns the stack level, as seen by the caller, of the first frame that is not ours: a line of the job."""
    level, frame = 1, sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("state_engine.") and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


__all__ = ["Uids", "authors_level"]
