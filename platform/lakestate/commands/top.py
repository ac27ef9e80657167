"""`lakestate top`: a job while it runs, redrawn every second."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lakestate.commands.common import Job, Root, add_row, make_console, make_table, named_errors, print_json
from lakestate.commands.formats import format_bytes, format_count, format_duration, format_time
from lakestate.commands.keyboard import Keyboard
from lakestate.commands.strips import heat_strip, spark_line
from state_engine.clock import SystemClock

if TYPE_CHECKING:
    from state_engine.inspect import JobActivity

_SMALLEST_STRIP, _LARGEST_STRIP = 8, 64
_FIGURES = ("keys", "rows", "size", "skew")
_QUIT = ("q", "Q", "\x03", "\x1b")


def top(
    job: Job,
    root: Root,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame and end; so it does without a terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one look as JSON, for programs.")] = False,
) -> None:
    """Watch a job: epochs, records, lag, and how its state is spread over the key groups. q ends it."""
    with named_errors():
        from state_engine.inspect import activity_of, open_job

        view = open_job(root, job)
        if as_json:
            print_json(activity_of(view))
            return
        console = make_console()
        width = console.width if console.is_terminal else 160

        def look() -> Group:
            return frame(activity_of(view), SystemClock().now_ms(), width)

        if once or not console.is_terminal:
            console.print(look())
        else:
            _watch(console, look, interval)


def _watch(console: Console, look: Callable[[], Group], interval: float) -> None:
    first = look()  # before the screen is taken: what is not there is said on the usual one
    with Keyboard() as keyboard, Live(first, console=console, screen=True, auto_refresh=False) as live:
        next_look = time.monotonic() + interval
        while True:
            if keyboard.read(max(0.0, next_look - time.monotonic())) in _QUIT:
                return
            if time.monotonic() >= next_look:
                live.update(look(), refresh=True)
                next_look = time.monotonic() + interval


def frame(activity: "JobActivity", now_ms: int, width: int) -> Group:
    """Returns what is shown of one look, for so many columns."""
    status = activity.status
    head = Text(status.job, style="bold")
    head.append(
        f"  epoch {status.generation}/{status.epoch}, {format_duration(now_ms - status.sealed_at)} ago", "default"
    )
    if activity.epochs_per_s is not None:
        head.append(f" · {activity.epochs_per_s:.1f} epochs/s", "default")
    checkpoint = status.checkpoint
    behind = f"{format_count(status.epochs_behind)} epochs behind"
    said = f"checkpoint {checkpoint.checkpoint_id}, {behind}" if checkpoint is not None else "no checkpoint yet"
    head.append(f" · {said}", "default")
    return Group(head, Text(), _operators(activity), Text(), _states(activity, width))


def _operators(activity: "JobActivity") -> Table:
    table = make_table(
        "operator", "subtasks", "records/s", "per epoch", "watermark", "lag", right=("subtasks", "records/s", "lag")
    )
    for status, one in zip(activity.status.operators, activity.operators, strict=True):
        watermark = "end of input" if status.input_ended else format_time(status.watermark)
        add_row(
            table,
            one.uid,
            status.parallelism,
            format_count(one.records_per_s),
            Text(spark_line(one.records, 16), style="cyan"),
            watermark,
            format_duration(status.event_time_lag_ms),
        )
    return table


def _states(activity: "JobActivity", width: int) -> Table:
    """The states, with strips that take what the other columns leave."""
    groups = {(one.uid, one.state): one for one in activity.groups}
    rows = []
    for state in activity.status.states:
        spread = groups.get((state.uid, state.state))
        skew = f"{spread.skew:.1f}" if spread is not None and spread.skew is not None else ""
        figures = (format_count(state.keys), format_count(state.rows), format_bytes(state.bytes), skew)
        rows.append(((f"{state.uid}/{state.state}", *figures), spread))
    heads = ("state", *_FIGURES)
    taken = sum(max(len(head), *(len(cells[n]) for cells, _ in rows)) + 2 for n, head in enumerate(heads) if rows)
    strip = min(_LARGEST_STRIP, max(_SMALLEST_STRIP, width - taken))
    table = make_table(*heads, "key groups", right=_FIGURES)
    for cells, spread in rows:
        add_row(table, *cells, heat_strip(spread.rows, strip) if spread is not None else "")
    return table


__all__ = ["frame", "top"]
