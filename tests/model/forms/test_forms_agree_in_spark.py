"""Random programs give the same in a real stream: many of them share one query.

A failure names its seed: `LAKESTATE_SEED=…` plays it again. `LAKESTATE_EXAMPLES` says how much the long run tries.
"""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forms.spark_runs import job_of, operators, seen_of

from state_engine.spark import MemorySink

pytestmark = pytest.mark.spark
EXAMPLES = int(os.environ.get("LAKESTATE_EXAMPLES", "100"))


@pytest.fixture(autouse=True)
def functions_travel_by_value() -> Iterator[None]:
    """Workers cannot import the modules of tests: what they define is sent whole."""
    from pyspark import cloudpickle

    modules = [sys.modules[name] for name in ("forms.program", "forms.functions", "forms.values", "forms.windows",
                                              "forms.declared")]  # fmt: skip
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    MemorySink.clear_all()
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


def new_seed() -> int:
    """Returns the seed of the environment, or a new one; it is printed if the test fails."""
    seed = int(os.environ.get("LAKESTATE_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"LAKESTATE_SEED={seed}")
    return seed


def check(spark: Any, folder: Path, backend: str, seed: int, each: int) -> None:
    made = operators(seed, each)
    client = job_of(spark, made, folder, backend).start(available_now=True)
    assert client.await_termination(280)
    for operator in made:
        try:
            operator.check(seen_of(operator))
        except AssertionError as error:
            raise AssertionError(f"Seed {seed}: {operator.shown}") from error


def test_programs_of_one_query_give_the_same(spark: Any, tmp_path: Path) -> None:
    seed = new_seed()
    check(spark, tmp_path, random.Random(seed).choice(["heap", "rocksdb"]), seed, each=1)


@pytest.mark.long
@pytest.mark.parametrize("number", range(max(1, EXAMPLES // 10)))
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_many_programs_give_the_same(spark: Any, tmp_path: Path, backend: str, number: int) -> None:
    check(spark, tmp_path, backend, new_seed(), each=3)
