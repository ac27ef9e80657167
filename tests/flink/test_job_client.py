"""What `execute_async` returns: PyFlink's `JobClient`, on Spark."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from state_engine.errors import UnsupportedMethodError, UserFunctionError
from state_engine.flink import Configuration, DiscardingSink, JobClient, JobStatus, StreamExecutionEnvironment, Types

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def of_this_module(request: pytest.FixtureRequest) -> Iterator[None]:
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def inverse(value: int) -> float:
    return 1 / value


def inverses(root: Path, values: list[int], configuration: Configuration | None = None) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_state_root(root)
    sink = (
        env.from_collection(values, Types.INT()).map(inverse, Types.DOUBLE()).uid("inverse").sink_to(DiscardingSink())
    )
    sink.uid("nowhere")
    return env.execute_async("inverses")


def test_a_client_waits_for_the_end(spark: Any, tmp_path: Path) -> None:
    client = inverses(tmp_path, [1, 2])
    waiting = client.get_job_execution_result()
    assert (client.get_job_id(), waiting.result().get_job_id()) == ("inverses", "inverses")
    assert waiting.done()
    assert waiting.exception() is None
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_job_status().result().is_globally_terminal_state()


def test_a_client_gives_what_the_job_failed_with(spark: Any, tmp_path: Path) -> None:
    client = inverses(tmp_path, [1, 0])
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        client.get_job_execution_result().result()
    assert isinstance(client.get_job_execution_result().exception(), UserFunctionError)
    assert client.get_job_status().result() is JobStatus.FAILED


def test_a_program_goes_on_from_the_savepoint_with_which_it_was_stopped(spark: Any, tmp_path: Path) -> None:
    client = inverses(tmp_path, [1, 2])
    client.get_job_execution_result().result()
    savepoint = client.stop_with_savepoint(advance_to_end_of_event_time=False).result()
    restore = Configuration().set_string("execution.state-recovery.path", savepoint)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = inverses(tmp_path, [1, 2], restore)
    again.get_job_execution_result().result()
    assert again.client.head.manifest.generation == client.client.head.manifest.generation + 1
    with pytest.raises(UnsupportedMethodError, match="below the state root"):
        again.trigger_savepoint("elsewhere")
