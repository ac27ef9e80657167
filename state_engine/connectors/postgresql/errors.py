"""What PostgreSQL says of a failure, without the text of the statement."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from state_engine.causes import shows_records
from state_engine.extras import from_extra

with from_extra("postgresql"):
    import adbc_driver_manager

_SAID = re.compile(r"(?:ERROR|FATAL|PANIC):\s+(.*)", re.DOTALL)
_REST = re.compile(r"\n+(?:LINE \d|CONTEXT:|QUERY:|Query was:)|\.? ?SQLSTATE: ", re.DOTALL)


class PostgresError(Exception):
    """PostgreSQL has refused a statement, or cannot be reached."""


@contextmanager
def plainly() -> Iterator[None]:
    """Turns an error of the driver into a `PostgresError`.

    Raises:
        PostgresError: With the message and the details; if records must not be shown, with the SQLSTATE alone.
    """
    try:
        yield
    except adbc_driver_manager.Error as error:
        raise PostgresError(said(error)) from (error if shows_records() else None)


def said(error: "adbc_driver_manager.Error") -> str:
    """Returns what PostgreSQL says in an error of the driver."""
    if error.sqlstate and not shows_records():
        return f"SQLSTATE {error.sqlstate}"
    text = str(error)
    found = _SAID.search(text)
    plain = " ".join(_REST.split(found[1] if found else text)[0].split())
    return f"{plain}. It comes from the environment: PGPASSWORD" if "password" in plain else plain


__all__ = ["PostgresError", "plainly", "said"]
