"""Shared code of the verbs that end a job: they first record that it is not wanted, so that nothing restarts it."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from lakestate.commands.common import make_console
from lakestate.errors import JobNotRunningError
from lakestate.running_job import RunningJob
from lakestate.supervision import wanted_stopped
from lakestate.supervision.stop import await_endpoint


@contextmanager
def ending(root: str | None, job: str, url: str | None) -> Iterator[RunningJob | None]:
    """Yields the running job that is to be ended; null if it does not run, but would have been restarted.

    If ending it fails with a named error and it goes on, it is recorded as wanted again. A job that is reached by its
    address is supervised elsewhere, if at all: only its process knows how it ends.
    """
    if root is None or url is not None:
        yield RunningJob(root, job, url)
        return
    with wanted_stopped(root, job) as was_wanted:
        await_endpoint(root, job)
        try:
            running = RunningJob(root, job)
        except JobNotRunningError:
            if not was_wanted:
                raise
            running = None
        yield running


def print_unwanted(job: str) -> None:
    """Prints that a job did not run, and will not be restarted."""
    make_console().print(Text(f"{job} does not run, and will not be restarted"))


__all__ = ["ending", "print_unwanted"]
