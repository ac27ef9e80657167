"""Elements that `execute_and_collect` returns to a program, on Spark."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle

from state_engine.errors import UserFunctionError
from state_engine.flink import CloseableIterator, StreamExecutionEnvironment, Types

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def without_a_root(request: pytest.FixtureRequest) -> Iterator[None]:
    cloudpickle.register_pickle_by_value(request.module)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The job has no state root")
        yield
    cloudpickle.unregister_pickle_by_value(request.module)


def inverse(value: int) -> float:
    return 1 / value


def test_each_run_without_a_root_begins_anew(spark: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sums = env.from_collection([1, 2, 3]).key_by(lambda v: 0, Types.INT()).sum()
    for _ in range(2):
        with sums.execute_and_collect("sums") as elements:
            assert isinstance(elements, CloseableIterator)
            assert sorted(elements)[-1] == 6


def test_a_limit_gives_a_list(spark: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert len(env.from_collection([1, 2, 3]).map(str, Types.STRING()).execute_and_collect(limit=2)) == 2


def test_what_a_function_raises_comes_out_of_the_iterator(spark: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    elements = env.from_collection([1, 0]).map(inverse, Types.DOUBLE()).execute_and_collect()
    with elements, pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        list(elements)
    assert list(elements) == []
