"""Shows the progress of the demonstration: a live block of lines on a terminal, one line per phase elsewhere."""

import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from lakestate.runner_events import AnyEvent, CheckpointCompleted, EpochSealed, Started


class DemoView:
    """Shows events as they come. Use as a context manager.

    Args:
        console: Where to print.
        records: Number of records of the stream.
    """

    def __init__(self, console: Console, records: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("records", total=records)
        self._status = Text()
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._epochs: dict[int, int] = {}
        self._generation = 0
        self._checkpoint = "none yet"
        self._started = time.monotonic()

    def __enter__(self) -> "DemoView":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def phase(self, text: str) -> None:
        """Prints what happens now."""
        elapsed = time.monotonic() - self._started
        self._console.print(f"[dim]{elapsed:6.1f} s[/]  {text}", highlight=False, soft_wrap=True)

    def show(self, event: AnyEvent) -> None:
        """Updates the display with one event."""
        match event:
            case Started():
                self._generation = event.generation
                # Later epochs were never sealed, or a restore has discarded them.
                self._epochs = {epoch: n for epoch, n in self._epochs.items() if epoch < event.epoch}
                self._status = Text(f"generation {event.generation} · starts with epoch {event.epoch}")
            case EpochSealed():
                self._epochs[event.epoch] = event.records
                rate = event.records / event.seconds if event.seconds else 0.0
                self._status = Text(
                    f"generation {self._generation} · epoch {event.epoch} · {rate:,.0f} records/s · "
                    f"{event.keys:,} keys · {event.state_rows:,} state rows · last checkpoint {self._checkpoint}"
                )
            case CheckpointCompleted():
                self._checkpoint = f"{event.checkpoint_id} at epoch {event.epoch}"
            case _:
                pass
        self._progress.update(self._task, completed=sum(self._epochs.values()))
        self._live.update(Group(self._progress, self._status))


__all__ = ["DemoView"]
