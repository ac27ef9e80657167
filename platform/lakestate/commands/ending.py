"""What verbs share that end a job: first it is said that it is not wanted, so that nobody starts it again."""

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
    """Gives the running job that is to be ended; null if it does not run and would have been started again.

    If it cannot be ended by name and goes on, it is wanted again. A job that is reached by its address is supervised
    elsewhere, if at all: how it ends is told by its process.
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
    """Says that a job did not run, and will not."""
    make_console().print(Text(f"{job} does not run, and is not started again"))


__all__ = ["ending", "print_unwanted"]
