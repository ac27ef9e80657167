"""Prints what `lakestate up` and `lakestate down` show."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lakestate.assets.names import lineage_path
from lakestate.commands.common import add_row, make_table
from lakestate.up.course import Look, describe
from lakestate.up.layout import Layout
from lakestate.up.record import Record
from lakestate.up.streams import StreamState


class ProgressView:
    """Shows one line per stream or process, with a spinner until it is done; without a terminal, a line per change.

    Use as a context manager.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.fields[name]}"),
            TextColumn("[dim]{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._shown: dict[str, str] = {}
        self._done: set[str] = set()

    def __enter__(self) -> "ProgressView":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def progress(self, name: str, text: str, *, done: bool = False) -> None:
        """Shows the progress of one stream or process."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task("", total=1, name=name)
        self._progress.update(self._tasks[name], description=text, completed=int(done))
        if not self._console.is_terminal and name not in self._done and self._shown.get(name) != text:
            self._console.print(Text(f"{name}: {text}"))
        self._shown[name] = text
        if done:
            self._done.add(name)


def print_status(console: Console, look: Look, record: Record) -> None:
    """Prints all streams and processes, with their state and progress."""
    table = make_table("what", "state", "process", "how far", right=("process",), fold=("how far",))
    for job, state in look.streams.items():
        add_row(table, job, state.condition, state.pid, _how_far(state))
    for name, process in look.processes.items():
        add_row(table, name, "running" if process.is_alive else "not running", process.pid, _shown(name, record))
    console.print(table)
    for job, state in look.streams.items():
        if state.cause:
            console.print(Text(f"{job}: {state.cause} Its log: {state.log}"))


def print_what_to_click(console: Console, record: Record, layout: Layout, jobs: Sequence[str]) -> None:
    """Prints the address of Dagster, links to the lineage of each stream, and what to look at."""
    grid = Table.grid(padding=(0, 2))
    for click, see in (
        ("flights/checkpoint, Plots", "rows, keys, bytes and duration of each checkpoint, a few seconds late"),
        ("orders/savepoint, Materialize…", "add a partition, enter a name, Launch: the stream keeps running"),
        ("orders/restored_state, Materialize…", "choose a savepoint and key ranges: a backfill restores them"),
        ("Runs, Catalog", "what each run recorded, and its logs"),
    ):
        grid.add_row(Text(click, style="bold"), Text(see, overflow="fold"))
    console.print(Text.assemble("\nDagster: ", (record.url, "bold")))
    if record.kafka:
        topics = "the stream visits reads its topic clicks, and writes its topic visits"
        console.print(Text(f"Kafka: {record.kafka_servers}; {topics}"), soft_wrap=True)
    for job in jobs:
        console.print(Text(f"Lineage of {job}: {record.url}{lineage_path(job)}"), soft_wrap=True)
    console.print(grid)
    clicks = "; six hours of clicks go to Kafka" if record.kafka else ""
    console.print(
        Text(
            f"\nEvery {record.every_s:g} s a file arrives with six hours of flights, "
            f"and one with six hours of orders{clicks}.\n"
            f"On the command line: LAKESTATE_ROOT={layout.state} lakestate status flights\n"
            f"To stop everything: lakestate down --dir {layout.folder}"
        ),
        soft_wrap=True,
    )


def _how_far(state: StreamState) -> str:
    if state.files is None:
        return f"{describe(state)}; input: Kafka"
    files = f"{state.files:,} files" if state.all_files is None else f"{state.files:,} of {state.all_files:,} files"
    is_over = state.all_files is not None and state.files >= state.all_files
    return f"{describe(state)}; input: {files}{', at its end' if is_over else ''}"


def _shown(name: str, record: Record) -> str:
    shown = {"feeder": f"a file every {record.every_s:g} s", "web-server": record.url, "kafka": record.kafka_servers}
    return shown.get(name, "")


__all__ = ["ProgressView", "print_status", "print_what_to_click"]
