"""`lakestate list`: the jobs under a root."""

from typing import TYPE_CHECKING

from rich.text import Text

from lakestate.commands.common import AsJson, Root, add_row, make_console, make_table, named_errors, plain, print_json
from lakestate.commands.formats import format_duration, format_time
from state_engine.clock import SystemClock

if TYPE_CHECKING:
    from lakestate.running_job import Process


def list_all(root: Root, as_json: AsJson = False) -> None:
    """List the jobs under a root, with the newest epoch of each."""
    with named_errors():
        # Imported here, so that the command line starts quickly.
        from lakestate.running_job import process_info
        from state_engine.inspect import list_jobs

        jobs = list_jobs(root)
        processes = {job.job: process_info(root, job.job) for job in jobs}
        if as_json:
            print_json([plain(job) | {"process": plain(processes[job.job])} for job in jobs])
            return
        console = make_console()
        if not jobs:
            console.print(Text(f"No job has sealed an epoch under {root}."))
            return
        now = SystemClock().now_ms()
        table = make_table(
            "job", "generation", "epoch", "sealed at", "ago", "process", right=("generation", "epoch", "ago")
        )
        for job in jobs:
            ago = format_duration(now - job.sealed_at) if job.sealed_at is not None else ""
            add_row(
                table, job.job, job.generation, job.epoch, format_time(job.sealed_at), ago, _pid(processes[job.job])
            )
        console.print(table)
        for job in jobs:
            if job.problem:
                console.print(Text(f"{job.job}: {job.problem}", style="red"))


def _pid(process: "Process | None") -> object:
    return (process.pid or "starts") if process is not None else None


__all__ = ["list_all"]
