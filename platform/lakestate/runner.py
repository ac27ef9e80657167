"""Runs one registered job in this process: `python -m lakestate.runner JOB --root FOLDER …`.

Standard output carries only events (`runner_events`); what Spark or the job print goes to standard error.
SIGTERM and SIGINT stop the job after the current epoch. Exit codes: 0 finished or stopped, 1 failed with a named error.
"""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from lakestate.commands.options import (
    AdoptSinks,
    AllowChangedSources,
    AllowNonRestoredState,
    Conf,
    Cores,
    DiscardState,
    Environment,
    KeepOutput,
    Master,
    MaxParallelism,
    Python,
    ResumeState,
    Strict,
    TriggerInterval,
    UidMapping,
    options_of,
    uids_of,
)
from lakestate.control import Endpoint, publish_endpoint
from lakestate.registry import load_job
from lakestate.rest.client_control import ClientControl
from lakestate.rest.ends import keep_ends
from lakestate.rest.guard import TOKEN, check_address
from lakestate.rest.server import LOOPBACK, serve
from lakestate.runner_events import (
    AnyEvent,
    CheckpointCompleted,
    EpochSealed,
    Finished,
    Started,
    encode_event,
    failed,
)
from lakestate.start_request import StartRequest
from state_engine.causes import report_of
from state_engine.clock import SystemClock
from state_engine.errors import LakestateError
from state_engine.log.records import Manifest
from state_engine.storage.job_lock import hold

_POLL_S = 0.1


class EventChannel:
    """The original standard output of this process, reserved for events.

    File descriptor 1 becomes a duplicate of standard error, also for the JVM, which inherits it. The descriptor kept
    here is not inherited, so the reader sees the end of the stream as soon as this process has ended.

    Args:
        epochs: Whether it reports epochs and checkpoints too, or only start and end.
    """

    def __init__(self, *, epochs: bool = True) -> None:
        self._epochs = epochs
        sys.stdout.flush()
        self._descriptor = os.dup(1)
        os.dup2(2, 1)

    def send(self, event: AnyEvent) -> None:
        """Writes one event.

        Raises:
            BrokenPipeError: The reader has closed the pipe.
        """
        if isinstance(event, EpochSealed | CheckpointCompleted) and not self._epochs:
            return
        line = memoryview(encode_event(event))
        while line:
            line = line[os.write(self._descriptor, line) :]


def state_size(manifest: Manifest) -> tuple[int, int]:
    """Returns the number of keys and of state rows that all operators held before this epoch, from their acks."""
    keys = rows = 0
    for operator in manifest.operators.values():
        for ack in operator.acks:
            keys += ack.keys
            rows += sum(one.rows for one in ack.statistics)
    return keys, rows


class Follower:
    """Sends events about what a running job has done since the last look."""

    def __init__(self, client: Any, channel: EventChannel) -> None:
        self._client = client
        self._channel = channel
        self._epoch = 0
        self._checkpoint_id: int | None = None

    @property
    def epoch(self) -> int:
        """The last epoch that was reported."""
        return self._epoch

    def start(self, job: str) -> None:
        """Reports that the job has started."""
        claim: Manifest = self._client.head.manifest
        self._epoch = claim.epoch
        self._channel.send(Started(job=job, generation=claim.generation, epoch=claim.epoch))

    def look(self) -> None:
        """Reports new epochs and checkpoints."""
        new = self._client.epochs_after(self._epoch)
        head: Manifest = self._client.head.manifest
        keys, rows = state_size(head)
        for summary in new:
            self._epoch = summary.epoch
            self._channel.send(
                EpochSealed(
                    epoch=summary.epoch,
                    records=summary.records,
                    seconds=summary.seconds,
                    keys=keys,
                    state_rows=rows,
                    spark_jobs=self._client.spark_jobs,
                )
            )
        base = head.base
        if base is not None and base.checkpoint_id != self._checkpoint_id:
            self._checkpoint_id = base.checkpoint_id
            self._channel.send(CheckpointCompleted(checkpoint_id=base.checkpoint_id, epoch=base.epoch))


def follow(
    client: Any, follower: Follower, stop: threading.Event, serve_requests: Callable[[], bool] = lambda: False
) -> bool:
    """Waits for the end of the job; returns whether it was told to stop.

    Args:
        client: Of the job.
        follower: Reports what is new, after each wait.
        stop: Set when the job is to stop.
        serve_requests: Serves what other threads requested of this one; returns whether a request has ended the job.

    Raises:
        Exception: What the job failed with.
    """
    ended = ended_by_request = False
    while not ended and not ended_by_request and not stop.is_set():
        ended = client.await_termination(timeout_s=_POLL_S)
        follower.look()
        ended_by_request = not ended and serve_requests()
    if not ended and not ended_by_request:
        client.stop()
    follower.look()
    if client.exception is not None:
        raise client.exception
    return not ended


@contextlib.contextmanager
def controlled(
    job: Any, client: Any, stop: threading.Event, *, host: str, port: int, token: str | None
) -> Iterator[ClientControl]:
    """Serves a running job over REST and publishes the address, until the block ends.

    Answers that a client still waits for are delivered before the server stops. They are stored for later requests.

    Args:
        job: The `StreamJob`.
        client: Of the job. It is stopped if it cannot be served.
        stop: Once set, the delivery is not waited for any longer.
        host: Where the server listens.
        port: Its port; 0 for a free one.
        token: Token that requests must carry.
    """
    from state_engine.spark import SparkWriter

    control = ClientControl(job, client, SystemClock().now_ms, writer=SparkWriter(job.definition.session))
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(serve([control], host=host, port=port, token=token))
            incarnation = client.head.manifest.incarnation
            endpoint = Endpoint(url=server.url, pid=os.getpid(), incarnation=incarnation, token=token)
            stack.enter_context(publish_endpoint(job.root, job.name, endpoint))
            print(f"Job {job.name} answers at {server.url}.", file=sys.stderr, flush=True)
        except BaseException:
            client.stop()
            raise
        try:
            yield control
        except BaseException as error:
            control.ended(error)
            raise
        else:
            control.ended()
        finally:
            server.deliver(stop)
            try:
                keep_ends(job.root, job.name, incarnation, server.ends)
            except LakestateError as error:  # the storage fails, and the job has ended anyway
                print(f"The results of operations cannot be stored: {report_of(error)}", file=sys.stderr, flush=True)


def make_session(job: str, factory: Any, settings: StartRequest) -> Any:
    """Returns the Spark session of a job, on this machine or on a cluster.

    Args:
        job: Name of the job.
        factory: Its factory, which says which connectors it needs.
        settings: Those of the session count.

    Raises:
        SessionError, JarsUnavailableError: As `cluster_session` and `local_session`.
    """
    # Imported here: a misspelt command must not wait for Spark.
    from state_engine.spark import cluster_session, local_session
    from state_engine.spark.session.connectors import connectors_of

    name, connectors = f"lakestate-{job}", connectors_of(factory)
    if settings.master is None:
        return local_session(name, settings.cores or "2", connectors=connectors, extra=settings.conf)
    return cluster_session(
        settings.master,
        name,
        python=settings.python,
        environment=settings.environment,
        connectors=connectors,
        extra=settings.conf,
    )


def run(
    job: Annotated[str, typer.Argument(help="Name of a registered job.")],
    root: Annotated[str, typer.Option(help="Folder of the state, the manifests and the checkpoints.")],
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the job's factory; repeatable.")] = None,
    restore: Annotated[str | None, typer.Option(help="Savepoint to restore, in a new generation.")] = None,
    uid_mapping: UidMapping = None,
    max_parallelism: MaxParallelism = None,
    allow_non_restored_state: AllowNonRestoredState = False,
    resume_state: ResumeState = None,
    discard_state: DiscardState = None,
    keep_output: KeepOutput = False,
    adopt_sinks: AdoptSinks = False,
    allow_changed_sources: AllowChangedSources = None,
    strict: Strict = False,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Subtasks per operator.")] = None,
    available_now: Annotated[bool, typer.Option(help="Stop after reading the input that is available now.")] = False,
    trigger_interval_ms: TriggerInterval = None,
    cores: Cores = None,
    master: Master = None,
    python: Python = None,
    environment: Environment = None,
    conf: Conf = None,
    rest_address: Annotated[
        str, typer.Option(help=f"Address the REST server listens on. If other machines can reach it, set {TOKEN}.")
    ] = LOOPBACK,
    rest_port: Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0 for a free one.")] = 0,
    epochs: Annotated[bool, typer.Option(help="Report epochs and checkpoints, not only start and end.")] = True,
) -> None:
    """Runs a registered job and reports on it, one JSON object per line."""
    channel = EventChannel(epochs=epochs)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        token = os.environ.get(TOKEN)
        check_address(rest_address, token)
        settings = StartRequest(
            cores=cores, master=master, python=python, environment=environment, conf=options_of(conf, "--conf")
        )
        settings.check_session()
        factory = load_job(job)
        hold(root, job, "driver")  # until this process ends; before the slow steps
        spark = make_session(job, factory, settings)
        pipeline = factory(spark, root, options_of(option))
        client = pipeline.start(
            available_now=available_now,
            restore=restore,
            uid_mapping=uids_of(uid_mapping),
            max_parallelism=max_parallelism,
            allow_non_restored_state=allow_non_restored_state,
            resume_state=resume_state or (),
            discard_state=discard_state or (),
            keep_output=keep_output,
            adopt_sinks=adopt_sinks,
            allow_changed_sources=allow_changed_sources or (),
            strict=strict,
            parallelism=parallelism,
            cancelled=stop.is_set,
            **({} if trigger_interval_ms is None else {"trigger_interval_ms": trigger_interval_ms}),
        )
        with controlled(pipeline, client, stop, host=rest_address, port=rest_port, token=token) as control:
            follower = Follower(client, channel)
            follower.start(pipeline.name)
            stopped = follow(client, follower, stop, control.serve)
            by_signal = stopped and stop.is_set()
            channel.send(
                Finished(stopped=stopped, epoch=follower.epoch, spark_jobs=client.spark_jobs, by_signal=by_signal)
            )
        spark.stop()
    except BaseException as error:  # sys.exit() in the job's factory, too
        traceback.print_exc()
        channel.send(failed(error))
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(run)
    app()
