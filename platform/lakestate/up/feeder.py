"""Feeds the examples: writes one more file for each of them, at a steady rate, while it runs.

    python -m lakestate.up.feeder --folder FOLDER --every SECONDS [--kafka SERVERS]

A file contains six hours of event time. The existing files determine the next one. So the feeder may be killed and
started again at any time: no record is written twice, and none is left out. The orders never end. The flights end after
a year, which the feeder reports: to start again from the first would double what the job has counted. With Kafka it
also writes the clicks, six hours at a time, into their topic.
"""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import pyarrow as pa
import typer

from lakestate.examples.files import newest_number, write_file
from lakestate.examples.flights import data as flights
from lakestate.examples.orders import data as orders
from lakestate.up.layout import Layout
from lakestate.up.record import only_one

if TYPE_CHECKING:
    from lakestate.examples.visits.topic import ClicksWriter


class Source(NamedTuple):
    """The input of an example.

    Attributes:
        read_part: Returns a part of it, by its number, which starts at 1.
        parts: Number of parts; null if it never ends.
    """

    read_part: Callable[[int], pa.Table]
    parts: int | None


SOURCES: dict[str, Source] = {
    "flights": Source(flights.read_part, flights.PARTS),
    "orders": Source(orders.read_part, None),
}
"""The inputs, by the name of the job that reads them."""


class Feeder:
    """Writes the next file of each source.

    Args:
        layout: Where to write.
        sources: By job.
        tell: Shows messages for users.
    """

    def __init__(self, layout: Layout, sources: Mapping[str, Source], tell: Callable[[str], None]) -> None:
        self._layout = layout
        self._sources = sources
        self._tell = tell
        self._ended: set[str] = set()

    def feed(self) -> None:
        """Writes one more file for each source that is not at its end; a file that fails is tried again next time."""
        for job, source in self._sources.items():
            folder = self._layout.input(job)
            number = newest_number(folder, job) + 1
            if source.parts is not None and number > source.parts:
                if job not in self._ended:
                    self._ended.add(job)
                    self._tell(f"{job}: the input has ended after {source.parts:,} files.")
                continue
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_file(source.read_part(number), folder, job, number)
            except OSError as error:
                self._tell(f"{job}: file {number} could not be written, and will be tried again: {error}")


class ClicksFeeder:
    """Writes the clicks into their topic.

    Args:
        servers: The Kafka broker.
        tell: Shows messages for users.
    """

    def __init__(self, servers: str, tell: Callable[[str], None]) -> None:
        self._servers = servers
        self._tell = tell
        self._writer: ClicksWriter | None = None

    def feed(self) -> None:
        """Writes the next part. One that fails is tried again next time, by a new writer, which finds out where."""
        from lakestate.examples.visits.topic import ClicksWriter, NotWrittenError

        try:
            self._writer = self._writer or ClicksWriter(self._servers)
            self._writer.write_next()
        except NotWrittenError as error:
            self._writer = None
            self._tell(f"clicks: the next part could not be written, and will be tried again: {error}")


def run(feeds: Sequence[Callable[[], None]], every_s: float, stop: threading.Event) -> None:
    """Feeds at once, and then every `every_s` seconds, until `stop` is set."""
    while True:
        for feed in feeds:
            feed()
        if stop.wait(every_s):
            return


def main(
    folder: Annotated[Path, typer.Option(help="The folder of `lakestate up`.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two files.")],
    kafka: Annotated[str | None, typer.Option(help="The Kafka broker that gets the clicks.")] = None,
) -> None:
    """Feed the examples until a signal ends it."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    layout = Layout(folder.absolute())
    (layout.folder / "input").mkdir(parents=True, exist_ok=True)
    with only_one(layout.folder / "input"):
        feeds = [Feeder(layout, SOURCES, typer.echo).feed]
        if kafka is not None:
            feeds.append(ClicksFeeder(kafka, typer.echo).feed)
        run(feeds, every, stop)


if __name__ == "__main__":
    typer.run(main)


__all__ = ["SOURCES", "ClicksFeeder", "Feeder", "Source", "main", "run"]
