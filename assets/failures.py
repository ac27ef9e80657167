"""Converts errors of the engine to failures of Dagster runs; the only place that does."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from state_engine.causes import LONGEST_REPORT
from state_engine.errors import LakestateError
from state_engine.text import plain, shorten

_NO_ACTION = "Look at the log of the run."


@contextmanager
def named_failures() -> Iterator[None]:
    """Ends a run with the name, message and remedy of a Lakestate error, instead of only a traceback."""
    try:
        yield
    except LakestateError as error:
        raise failure_of(error) from error


def failure_of(error: LakestateError) -> dg.Failure:
    """Returns the failure for an error; its metadata contain the remedy as `action`."""
    return refused(f"{type(error).__name__}: {error.message}", action=error.action, allow_retries=True)


def refused(why: str, *, action: str = "", allow_retries: bool = False) -> dg.Failure:
    """Returns the failure of a run that is refused.

    Args:
        why: The reason, which users read first.
        action: What to do now.
        allow_retries: Whether the same run may succeed later.
    """
    description = shorten(plain(why), LONGEST_REPORT)
    return dg.Failure(description, metadata={"action": action or _NO_ACTION}, allow_retries=allow_retries)


__all__ = ["failure_of", "named_failures", "refused"]
