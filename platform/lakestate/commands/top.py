"""`lakestate top`: a live view of a job, redrawn every second."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lakestate.commands.common import Job, Root, add_row, make_console, make_table, named_errors, print_json
from lakestate.commands.formats import format_bytes, format_count, format_duration, format_time, number_of
from lakestate.commands.keyboard import Keyboard
from lakestate.commands.strips import heat_strip, spark_line
from state_engine.clock import SystemClock
from state_engine.errors import LakestateError

if TYPE_CHECKING:
    from lakestate.running_job import Process
    from state_engine.inspect import JobActivity

_SMALLEST_STRIP, _LARGEST_STRIP = 8, 64
_SMALLEST_BARS, _LARGEST_BARS = 9, 16
_FIGURES = ("keys", "rows", "size", "skew")
_QUIT = ("q", "Q", "\x03")
_AT_MOST_S = 0.5
_ESCAPE = "\x1b"
"""Escape alone ends the view; the sequence of an arrow key begins with it."""


def top(
    job: Job,
    root: Root,
    interval: Annotated[float, typer.Option(min=0.1, help="Refresh interval in seconds.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit. The default without a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one snapshot as JSON.")] = False,
) -> None:
    """Watch a job: epochs, records, lag, and how its state is spread over the key groups. Press q to quit."""
    with named_errors():
        from lakestate.running_job import process_info
        from state_engine.inspect import activity_of, open_job

        view = open_job(root, job)
        if as_json:
            print_json(activity_of(view))
            return
        console = make_console()

        def look() -> Group:
            width = console.width if console.is_terminal else 160  # read each time: a terminal may be resized
            return frame(activity_of(view), SystemClock().now_ms(), width, process_info(root, job))

        if once or not console.is_terminal:
            console.print(look())
        else:
            _watch(console, look, interval)


def _watch(console: Console, look: Callable[[], Group], interval: float) -> None:
    shown = look()  # before the full screen begins, so that an error, such as a missing job, is printed normally
    with (
        _interrupted() as interrupted,
        Keyboard() as keyboard,
        Live(shown, console=console, screen=True, auto_refresh=False) as live,
    ):
        next_look = time.monotonic() + interval
        while not interrupted.is_set():
            keys = keyboard.read(min(_AT_MOST_S, max(0.0, next_look - time.monotonic())))
            if keys == _ESCAPE or any(key in _QUIT for key in keys):
                return
            if time.monotonic() >= next_look:
                try:
                    shown = look()
                    live.update(shown, refresh=True)
                except LakestateError as error:  # a file may be deleted while it is read; the next look may succeed
                    live.update(Group(shown, Text(), Text(f"{type(error).__name__}: {error}", "red")), refresh=True)
                next_look = time.monotonic() + interval


@contextmanager
def _interrupted() -> Iterator[Event]:
    """Yields an event that is set when Ctrl-C was pressed. As an exception, it could be lost in a library."""
    import pyarrow as pa

    event = Event()
    before = signal.signal(signal.SIGINT, lambda *_: event.set())
    pa.enable_signal_handlers(False)  # Arrow keeps signals that come while it reads to itself
    try:
        yield event
    finally:
        pa.enable_signal_handlers(True)
        signal.signal(signal.SIGINT, before)


def frame(activity: "JobActivity", now_ms: int, width: int, process: "Process | None" = None) -> Group:
    """Returns the display of one look, `width` columns wide."""
    status = activity.status
    head = Text(status.job, style="bold")
    owner = f"process {process.pid or 'that starts'}" if process is not None else "no process on this machine"
    head.append(
        f"  epoch {status.generation}/{status.epoch}, {format_duration(now_ms - status.sealed_at)} ago", "default"
    )
    head.append(f" · {owner}", "default")
    checkpoint = status.checkpoint
    lag = f"{number_of(status.epochs_behind, 'epoch')} behind"
    line = f"checkpoint {checkpoint.checkpoint_id}, {lag}" if checkpoint is not None else "no checkpoint yet"
    if activity.epochs_per_s is not None:
        line = f"{activity.epochs_per_s:.1f} epochs/s · {line}"
    return Group(head, Text(line), Text(), _operators(activity, width), Text(), _states(activity, width))


def _operators(activity: "JobActivity", width: int) -> Table:
    """Returns the operators, with bars that fill the width that the other columns leave."""
    heads = ("operator", "subtasks", "records/s", "watermark", "lag")
    rows = []
    for status, one in zip(activity.status.operators, activity.operators, strict=True):
        watermark = "end of input" if status.input_ended else format_time(status.watermark)
        lag = format_duration(status.event_time_lag_ms)
        rows.append((one, (one.uid, f"{status.parallelism}", format_count(one.records_per_s), watermark, lag)))
    if _width(heads, [cells for _, cells in rows]) + _SMALLEST_BARS + 2 > width:  # the lag shows the day
        rows = [(one, (*cells[:3], cells[3].rpartition(" ")[2] if ":" in cells[3] else cells[3], cells[4]))
                for one, cells in rows]  # fmt: skip
    remaining = width - _width(heads, [cells for _, cells in rows]) - 2
    bars = min(_LARGEST_BARS, max(_SMALLEST_BARS, remaining))
    table = make_table(*heads[:3], "per epoch", *heads[3:], right=("subtasks", "records/s", "lag"))
    for one, cells in rows:
        add_row(table, *cells[:3], Text(spark_line(one.records, bars), style="cyan"), *cells[3:])
    return table


def _width(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Returns the number of terminal columns that a table takes."""
    return sum(max(len(head), *(len(cells[n]) for cells in rows)) + 2 for n, head in enumerate(heads)) if rows else 0


def _states(activity: "JobActivity", width: int) -> Table:
    """Returns the states, with strips that fill the width that the other columns leave."""
    groups = {(one.uid, one.state): one for one in activity.groups}
    rows = []
    for state in activity.status.states:
        spread = groups.get((state.uid, state.state))
        skew = f"{spread.skew:.1f}" if spread is not None and spread.skew is not None else ""
        figures = (format_count(state.keys), format_count(state.rows), format_bytes(state.bytes), skew)
        rows.append(((f"{state.uid}/{state.state}", *figures), spread))
    heads = ("state", *_FIGURES)
    strip = min(_LARGEST_STRIP, max(_SMALLEST_STRIP, width - _width(heads, [cells for cells, _ in rows])))
    table = make_table(*heads, "key groups", right=_FIGURES)
    for cells, spread in rows:
        add_row(table, *cells, heat_strip(spread.rows, strip) if spread is not None else "")
    return table


__all__ = ["frame", "top"]
