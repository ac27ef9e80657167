"""After its Spark session was stopped or its JVM has ended, a job ends with a named error; without Spark."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from state_engine.api.checkpoint_config import CheckpointConfig
from state_engine.checkpoint.coordinator import CheckpointCoordinator
from state_engine.errors import EpochError, FencedError, SparkLostError, StopRequestedError, UserFunctionError
from state_engine.spark.driver.client import JobClient
from state_engine.spark.driver.heartbeat import LONGEST_S, Heartbeat
from state_engine.spark.driver.running_query import RunningQuery
from state_engine.spark.driver.startup import StartOptions


class Engine:
    """Session, context and query of Spark: idle, until a test stops or kills them."""

    runId = "run"
    asked = 0

    def __init__(self) -> None:
        self._jsc: Any = self
        self.stopped = self.ended = self.has_died = False
        self.failed: Exception | None = None

    @property
    def sparkContext(self) -> "Engine":
        return self

    def sc(self) -> "Engine":
        return self._answer()

    def isStopped(self) -> bool:
        return self.stopped

    def _answer(self) -> "Engine":
        if self.has_died:
            raise ConnectionRefusedError("nobody listens")
        return self

    @property
    def isActive(self) -> bool:
        return not self._answer().ended  # also after the end of its session

    def awaitTermination(self, within_s: float) -> bool:
        self.asked += 1
        self._answer()
        if self.failed is not None:
            raise self.failed
        return self.ended

    def exception(self) -> Exception | None:
        return self._answer().failed

    def stop(self) -> None:
        if self.stopped:
            raise Py4JNetworkError("Cannot call methods on a stopped SparkContext.")
        self._answer().ended = True


def stop_session(engine: Engine) -> None:
    """`spark.stop()`."""
    engine.stopped, engine._jsc = True, None


def stop_in_jvm(engine: Engine) -> None:
    """The context ends by itself, or by other code in the JVM: Python does not notice."""
    engine.stopped = True


def die(engine: Engine) -> None:
    """The JVM is killed."""
    engine.has_died = True


LOSSES = pytest.mark.parametrize(
    ("lose", "why"), [(stop_session, "was stopped"), (stop_in_jvm, "was stopped"), (die, "JVM has ended")]
)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def client(engine: Engine) -> Any:
    """A client before the start of its heartbeat."""
    job: Any = SimpleNamespace(
        name="flights",
        settings=SimpleNamespace(heartbeat_interval_ms=1, checkpoint_config=CheckpointConfig(), show_records=True),
        session=engine,
        sources=SimpleNamespace(),
    )
    found: Any = JobClient(job, StartOptions())
    driver = SimpleNamespace(request_stop=lambda: None, end_rescales=lambda: None, head=None)
    publisher = SimpleNamespace(wait=lambda timeout_s=None: True, completed=lambda: None)
    found._query = RunningQuery(engine, engine, "flights")  # type: ignore[arg-type]
    sinks = SimpleNamespace(close=lambda: None)
    found._driver = driver
    found._started = SimpleNamespace(publisher=publisher, coordinator=CheckpointCoordinator(), sinks=sinks)
    found._heartbeat = Heartbeat(
        "heartbeat", 1, has_ended=found._query.await_end, watch=lambda: None, beat=lambda: None,
        at_end=found._end_checkpoints, failed=found._failed_between_batches,
    )  # fmt: skip
    return found


@LOSSES
def test_a_wait_for_the_end_of_the_job_raises_the_reason(client, engine: Engine, lose: Any, why: str) -> None:
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            client.await_termination()
        except SparkLostError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    client._heartbeat.start()
    waiting.start()
    while engine.asked < 3:
        waiting.join(0.001)
    assert client.state == "RUNNING"
    lose(engine)
    waiting.join(30)
    assert not waiting.is_alive()
    assert raised == [client.exception]
    assert why in str(raised[0])
    assert "flights" in str(raised[0])
    assert "client.stop()" in str(raised[0])
    assert client.state == "FAILED"
    client.stop()  # has nothing left to do, and does not report the missing engine
    assert client.state == "FAILED"
    assert client.spark_jobs == 0


@LOSSES
def test_a_stop_after_the_end_of_the_session_is_no_end_of_the_job(client, engine: Engine, lose: Any, why: str) -> None:
    client._heartbeat = late = Heartbeat(
        "late", 1, has_ended=lambda _: late._stopped.wait(30), watch=lambda: None, beat=lambda: None,
        at_end=lambda: None, failed=lambda error: None,
    )  # fmt: skip
    late.start()
    lose(engine)
    client.stop()
    assert client.state == "FAILED", "although the heartbeat has not seen it yet"
    assert why in str(client.exception)


@LOSSES
def test_a_job_that_had_ended_has_ended_as_it_had(client, engine: Engine, lose: Any, why: str) -> None:
    engine.ended = True
    client._heartbeat.start()
    assert client.await_termination(30)
    lose(engine)
    assert (client.state, client.exception) == ("FINISHED", None)


@LOSSES
@pytest.mark.parametrize(
    ("error", "is_named"),
    [
        (EpochError("Spark gave up"), True),
        (StopRequestedError("The query was stopped in the middle"), True),
        (Py4JNetworkError("Answer from Java side is empty"), True),
        (EOFError(), True),
        (PySparkException("Cannot call methods on a stopped SparkContext"), True),
        (UserFunctionError("it raised"), False),
        (FencedError("another driver"), False),
    ],
)  # fmt: skip
def test_what_a_batch_fails_with_is_named_where_the_engine_is_why(
    client, engine: Engine, lose: Any, why: str, error: Exception, is_named: bool
) -> None:
    query = client._query
    assert query.named(error) is error, "as long as the engine exists, the error itself says what happened"
    lose(engine)
    client._note_failure(error)
    assert isinstance(client._error, SparkLostError) is is_named
    if is_named:
        assert client._error.__cause__ is error
    else:
        assert client._error is error


def test_the_query_fails_in_the_engine_because_that_was_stopped(client, engine: Engine) -> None:
    engine.failed = PySparkException("Cannot call methods on a stopped SparkContext")
    engine.ended = True
    stop_in_jvm(engine)
    client._heartbeat.start()
    with pytest.raises(SparkLostError):
        client.await_termination(30)


def test_an_error_of_a_connection_that_goes_on_is_what_it_is(engine: Engine) -> None:
    engine.failed = OSError("too many open files")
    query: Any = RunningQuery(engine, engine, "flights")  # type: ignore[arg-type]
    with pytest.raises(OSError, match="too many"):
        query.await_end(1)


def test_a_heartbeat_of_minutes_looks_after_the_engine_each_second() -> None:
    pieces: list[float] = []
    looks: list[str] = []

    def has_ended(within_s: float) -> bool:
        pieces.append(within_s)
        return len(pieces) > 60

    heartbeat = Heartbeat(
        "slow", 60_000, has_ended=has_ended, watch=lambda: looks.append("watch"), beat=lambda: looks.append("beat"),
        at_end=lambda: looks.append("end"), failed=lambda error: looks.append(repr(error)),
    )  # fmt: skip
    heartbeat.start()
    assert heartbeat.wait(10)
    assert pieces == [LONGEST_S] * 61
    assert looks == ["watch"] * 60 + ["beat", "end"]
