"""Starts and ends everything in the right order.

Dagster ends first, since it restarts streams that have failed. Then the streams end after their current epoch, and the
Kafka broker last. A process that has crashed in between is no problem: `end` ends what lives, and `begin` starts what
does not.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lakestate.supervision.heartbeat import Condition
from lakestate.up.broker import KafkaBroker
from lakestate.up.dagster_home import asset_groups, commands, write_home
from lakestate.up.errors import NotUpError
from lakestate.up.layout import Layout
from lakestate.up.processes import BackgroundProcess
from lakestate.up.record import Record
from lakestate.up.streams import LIVING, Streams, StreamState
from state_engine.errors import LakestateError

FEEDER, KAFKA = "feeder", "kafka"
PATIENCE_S = 600.0
_POLL_S = 0.5


class Observer(Protocol):
    """Shows the progress."""

    def progress(self, name: str, text: str, *, done: bool = False) -> None:
        """Shows the progress of one stream or process; called repeatedly."""


class ProcessState(NamedTuple):
    """The state of a process that is not a stream."""

    pid: int | None
    is_alive: bool
    last_line: str
    log: str


class Look(NamedTuple):
    """The state of all streams and processes, by name."""

    streams: dict[str, StreamState]
    processes: dict[str, ProcessState]

    @property
    def living(self) -> list[str]:
        """Names of the streams and processes that live."""
        streams = [name for name, state in self.streams.items() if state.condition in LIVING]
        return [*streams, *(name for name, state in self.processes.items() if state.is_alive)]

    @property
    def starting(self) -> list[str]:
        """Names of the streams that are about to run."""
        return [name for name, state in self.streams.items() if state.condition is Condition.STARTING]

    def of(self, names: Sequence[str]) -> "Look":
        """Returns a look with only these names."""
        return Look(
            {name: state for name, state in self.streams.items() if name in names},
            {name: state for name, state in self.processes.items() if name in names},
        )


def _create_topics(servers: str) -> None:
    from lakestate.examples.visits.topic import NotWrittenError, create_topics

    try:
        create_topics(servers)
    except NotWrittenError as error:
        raise NotUpError(f"The Kafka broker at {servers} made no topics: {error}.", action="Run it again.") from error


class Course:
    """Starts and ends everything below a folder.

    Args:
        layout: Of the folder.
        streams: The streams.
        dagster: Returns the command lines of Dagster's processes for a port.
        groups: Returns the asset groups that an address shows.
        broker: The Kafka broker; null without one.
        topics: Creates the topics of the clicks; called with the broker's address once it listens.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        streams: Streams | None = None,
        dagster: Callable[[int], Mapping[str, Sequence[str]]] | None = None,
        groups: Callable[[str], set[str] | None] = asset_groups,
        broker: KafkaBroker | None = None,
        topics: Callable[[str], None] = _create_topics,
    ) -> None:
        self._layout = layout
        self._broker = broker
        self._topics = topics
        self._streams = streams or Streams(layout, broker.servers if broker is not None else None)
        self._dagster = dagster or (lambda port: commands(layout.dagster_home, port))
        self._groups = groups
        self._processes = {name: BackgroundProcess(layout.processes, name) for name in self._names()}

    def _names(self) -> list[str]:
        return [*([KAFKA] if self._broker is not None else []), FEEDER, *self._dagster(0)]

    def look(self) -> Look:
        """Returns the state of everything; changes nothing."""
        return Look(
            {job: self._streams.state(job) for job in self._streams.names},
            {
                name: ProcessState(process.pid, process.is_alive, process.last_line(), str(process.log))
                for name, process in self._processes.items()
            },
        )

    def begin(self, record: Record) -> list[str]:
        """Starts what does not live, and returns the names of what it started."""
        for folder in (self._layout.state, self._layout.processes):
            folder.mkdir(parents=True, exist_ok=True)
        write_home(self._layout.dagster_home)
        feed = [sys.executable, "-m", "lakestate.up.feeder", "--folder", str(self._layout.folder)]
        feed += ["--kafka", self._broker.servers] if self._broker is not None else []
        environment = {"DAGSTER_HOME": str(self._layout.dagster_home), "LAKESTATE_ROOT": str(self._layout.state)}
        started: list[str] = []
        try:
            if self._broker is not None:
                self._begin_kafka(self._broker, started)
            self._begin(FEEDER, [*feed, "--every", f"{record.every_s:g}"], environment, started)
            for job in self._streams.names:  # before Dagster, which does not show the visits until they have a folder
                if self._streams.start(job):
                    started.append(job)
            for name, command in self._dagster(record.port).items():
                self._begin(name, command, environment, started)
        except BaseException:
            self.end(started)
            raise
        return started

    def _begin(self, name: str, command: Sequence[str], environment: Mapping[str, str], started: list[str]) -> None:
        if self._processes[name].start(command, directory=self._layout.folder, environment=environment):
            started.append(name)

    def _begin_kafka(self, broker: KafkaBroker, started: list[str]) -> None:
        process = self._processes[KAFKA]
        if not process.is_alive:
            self._begin(KAFKA, broker.prepare(), {}, started)
        broker.await_start(lambda: process.is_alive, process.log)
        self._topics(broker.servers)

    def await_ready(
        self, record: Record, observer: Observer, begun: Sequence[str], patience_s: float = PATIENCE_S
    ) -> None:
        """Waits until Dagster shows all streams, and each stream that was started runs and has a checkpoint.

        Args:
            record: The settings of this `up`.
            observer: Shows the progress.
            begun: Names of what was started.
            patience_s: How long to wait.

        Raises:
            NotUpError: A process has ended, or takes too long.
        """
        until = time.monotonic() + patience_s
        while True:
            look = self.look().of(begun)
            waiting = [*_waiting_for_streams(look, observer), *self._waiting_for_dagster(look, record, observer)]
            if not waiting:
                return
            if time.monotonic() > until:
                raise NotUpError(
                    f"Not ready after {patience_s:.0f} s: {', '.join(waiting)}.",
                    action=f"Look at the logs below {self._layout.processes} and {self._layout.state}/*/_control.",
                )
            time.sleep(_POLL_S)

    def end(self, names: Sequence[str] | None = None, observer: Observer | None = None) -> list[str]:
        """Ends everything that lives, or only these names; returns the names of what lived.

        A failure to end one does not prevent the end of the others.

        Raises:
            LakestateError: A stream or process could not be ended; all others have ended.
        """
        enders: dict[str, Callable[[], bool]] = {
            "daemon": self._ender("daemon"),
            "web-server": self._ender("web-server"),
            # Its runs are child processes, which would go on after its end.
            "code-server": self._ender("code-server", with_group=True),
            **{job: self._stream_ender(job) for job in self._streams.names},
            FEEDER: self._ender(FEEDER),
            **({KAFKA: self._ender(KAFKA)} if self._broker is not None else {}),
        }
        ended, failures = [], []
        for name, end in enders.items():
            if names is not None and name not in names:
                continue
            try:
                if observer is not None:
                    observer.progress(name, "ends")
                if has_lived := end():
                    ended.append(name)
                if observer is not None:
                    observer.progress(name, "has ended" if has_lived else "did not run", done=True)
            except LakestateError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return ended

    def _ender(self, name: str, *, with_group: bool = False) -> Callable[[], bool]:
        return lambda: name in self._processes and self._processes[name].end(with_group=with_group)

    def _stream_ender(self, job: str) -> Callable[[], bool]:
        return lambda: self._streams.stop(job)

    def _waiting_for_dagster(self, look: Look, record: Record, observer: Observer) -> list[str]:
        for name, process in look.processes.items():
            if not process.is_alive:
                raise NotUpError(
                    f"The {name} has ended: {process.last_line or 'its log is empty.'}",
                    action=f"Look at its log, {process.log}.",
                )
        groups = self._groups(record.url)
        is_ready = groups is not None and groups >= set(self._streams.names)
        observer.progress("dagster", record.url if is_ready else "starts", done=is_ready)
        return [] if is_ready else ["dagster"]


def _waiting_for_streams(look: Look, observer: Observer) -> list[str]:
    for job, state in look.streams.items():
        if state.condition not in LIVING:
            raise NotUpError(
                f"The stream {job} has ended. {state.cause}".strip(), action=f"Look at its log, {state.log}."
            )
        observer.progress(job, describe(state), done=_is_ready(state))
    return [job for job, state in look.streams.items() if not _is_ready(state)]


def describe(state: StreamState) -> str:
    """Returns the progress of a stream, in a few words."""
    if state.condition is Condition.STARTING:
        return f"starts after epoch {state.generation}/{state.epoch}" if state.epoch else "starts"
    if state.checkpoint is not None:
        return f"epoch {state.generation}/{state.epoch}, checkpoint {state.checkpoint}"
    return f"epoch {state.generation}/{state.epoch}" if state.epoch else "starts"


def _is_ready(state: StreamState) -> bool:
    return state.condition is Condition.RUNNING and state.checkpoint is not None


__all__ = ["FEEDER", "KAFKA", "Course", "Look", "Observer", "ProcessState", "describe"]
