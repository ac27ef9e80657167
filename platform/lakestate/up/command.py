"""`lakestate up` and `lakestate down`: start and end two example streams with Dagster."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from lakestate.commands.common import AsJson, ExitCode, make_console, named_errors, print_json

if TYPE_CHECKING:
    from lakestate.up.course import Course, Look
    from lakestate.up.layout import Layout
    from lakestate.up.record import Record

_EVERY_S = 15.0
_LOOK_S = 2.0

Folder = Annotated[
    Path,
    typer.Option("--dir", file_okay=False, help="Folder for everything: empty, new, or used by `up` before."),
]


def up(
    dir: Folder = Path(".lakestate/up"),
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of Dagster's UI. Default: 3000, or a free one.", show_default=False),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds between two input files. Default: 15.", show_default=False),
    ] = None,
    kafka: Annotated[
        bool | None,
        typer.Option(
            "--kafka/--no-kafka",
            help="Also a Kafka broker of its own, and a third stream, which reads it. Default: as before.",
            show_default=False,
        ),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground; Ctrl-C ends everything.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Only show what runs and its progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start two example streams, their input, and Dagster, and wait until each stream has a checkpoint."""
    with named_errors():
        from lakestate.up.layout import Layout
        from lakestate.up.record import only_one, read_record

        layout = Layout(dir.absolute())
        record = read_record(layout.folder)
        console = Console(stderr=True, highlight=False) if as_json else make_console()
        if status:
            record = _brought_up(record, layout)
            _tell(console, _course(layout, record).look(), record, as_json=as_json)
            return
        layout.folder.mkdir(parents=True, exist_ok=True)
        with only_one(layout.folder):
            record = _bring_up(console, layout, record, port, every, kafka)
            course = _course(layout, record)
            look = course.look()
            _tell(console, look, record, as_json=as_json)
            if not as_json:
                from lakestate.up.view import print_what_to_click

                print_what_to_click(console, record, layout, list(look.streams))
        if foreground:
            _stay(console, course)
            with only_one(layout.folder):
                _end(console, course)


def down(dir: Folder = Path(".lakestate/up")) -> None:
    """Stop what `lakestate up` started: Dagster, the streams after their current epoch, then their input."""
    with named_errors():
        from lakestate.up.layout import Layout
        from lakestate.up.record import only_one, read_record

        layout = Layout(dir.absolute())
        record = _brought_up(read_record(layout.folder), layout)
        with only_one(layout.folder):
            _end(make_console(), _course(layout, record))


def _course(layout: "Layout", record: "Record | None") -> "Course":
    from lakestate.up.broker import KafkaBroker
    from lakestate.up.course import Course

    if record is None or not record.kafka or record.kafka_port is None:
        return Course(layout)
    return Course(layout, broker=KafkaBroker(layout.kafka, record.kafka_port))


def _brought_up(record: "Record | None", layout: "Layout") -> "Record":
    if record is None:
        typer.echo(f"`lakestate up` was never run in {layout.folder}.", err=True)
        raise typer.Exit(ExitCode.WRONG_USE)
    return record


def _bring_up(
    console: Console,
    layout: "Layout",
    before: "Record | None",
    port: int | None,
    every: float | None,
    kafka: bool | None,
) -> "Record":
    """Starts the processes that do not run and waits for them; stops them again if one does not become ready."""
    from lakestate.up.checks import check_machine, choose_kafka_port, choose_port
    from lakestate.up.record import Record, write_record
    from lakestate.up.view import ProgressView

    living = _course(layout, before).look().living
    if kafka is None:
        kafka = before is not None and before.kafka
    if before is not None and living:
        if (port or before.port, every or before.every_s, kafka) != (before.port, before.every_s, before.kafka):
            raise typer.BadParameter(
                f"It already runs at {before.url}, with a file every {before.every_s:g} s and "
                f"{'a' if before.kafka else 'no'} Kafka broker. Run `lakestate down` first."
            )
        record = before
        console.print(Text(f"Already running: {', '.join(living)}."))
    else:
        check_machine(layout.folder, kafka=kafka)
        kafka_port = before.kafka_port if before is not None else None
        record = Record(
            port=choose_port(port, before.port if before is not None else None),
            every_s=every or (before.every_s if before is not None else _EVERY_S),
            kafka=kafka,
            kafka_port=choose_kafka_port(kafka_port) if kafka else kafka_port,
        )
        write_record(layout.folder, record)
    course = _course(layout, record)
    begun = course.begin(record)
    awaited = [*begun, *course.look().starting]  # Dagster may just have restarted a stream
    if awaited:
        with _ending_what_was_begun(course, begun), ProgressView(console) as view:
            course.await_ready(record, view, awaited)
    return record


@contextmanager
def _ending_what_was_begun(course: "Course", begun: list[str]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        typer.echo(f"Stopping what was started: {', '.join(begun)}.", err=True)
        course.end(begun)
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(ExitCode.FAILED) from None
        raise


def _tell(console: Console, look: "Look", record: "Record", *, as_json: bool) -> None:
    from lakestate.up.view import print_status

    if as_json:
        print_json({"url": record.url, "every_s": record.every_s, "streams": look.streams, "processes": look.processes})
    else:
        print_status(console, look, record)


def _stay(console: Console, course: "Course") -> None:
    """Waits for Ctrl-C or SIGTERM, and reports processes that end or start meanwhile."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    console.print(Text("\nCtrl-C ends everything."))
    living = set(course.look().living)
    try:
        while not stop.wait(_LOOK_S):
            now = set(course.look().living)
            for name in sorted(living - now):
                console.print(Text(f"{name} has ended. `lakestate up` starts it again."))
            for name in sorted(now - living):
                console.print(Text(f"{name} runs again."))
            living = now
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(console: Console, course: "Course") -> None:
    from lakestate.up.view import ProgressView

    with ProgressView(console) as view:
        ended = course.end(observer=view)
    streams = course.look().streams
    for job in (job for job in ended if job in streams):
        console.print(Text(f"{job} has stopped after epoch {streams[job].generation}/{streams[job].epoch}."))
    if not ended:
        console.print(Text("Nothing ran."))


__all__ = ["down", "up"]
