"""Delta tables that a sink divides into partitions: restores, other partitions. In test_shared_jobs Spark reads one."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from shared_jobs.functions import DIVIDED, Each
from support import Input, newest, run_all

from state_engine.errors import JobDefinitionError, SinkError
from state_engine.spark import DeltaSink, StreamJob

pytestmark = pytest.mark.spark

NAME = "divided"


class Divided:
    """A job that writes one stream into a table by `k` and `even`, and into a flat one."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.source = Input(folder / "in").add_many(2)

    @property
    def path(self) -> str:
        return str(self.folder / "by")

    def job(self, partition_by: Any = ("k", "even"), parallelism: int = 2) -> StreamJob:
        job = StreamJob(NAME, root=str(self.folder / "root"), parallelism=parallelism)
        rows = self.source.stream(self.spark).selectExpr("k", "sub", "n", "n % 2 = 0 AS even")
        latest = job.from_stream(rows).key_by("k", order_by=["n"]).process(Each(), DIVIDED, uid="each")
        latest.sink_to(DeltaSink(self.path, partition_by=partition_by), uid="by")
        latest.sink_to(DeltaSink(self.folder / "flat"), uid="flat")
        return job

    def check(self) -> None:
        """Compares the tables with the input."""
        expected = sorted(((row.k, row.sub, row.n, row.n % 2 == 0) for row in self.source.all), key=str)
        for path in (self.path, str(self.folder / "flat")):
            table = DeltaTable(path).to_pyarrow_table().select(["k", "sub", "n", "even"])
            assert sorted(map(tuple, (row.values() for row in table.to_pylist())), key=str) == expected


@pytest.fixture
def divided(spark: Any, tmp_path: Path) -> Divided:
    return Divided(spark, tmp_path)


def test_output_comes_back_with_the_values_of_its_partitions(divided: Divided) -> None:
    pin = run_all(divided.job()).trigger_savepoint()
    divided.source.add_many(1)
    run_all(divided.job(parallelism=3), restore=pin.savepoint_id)
    divided.check()
    run_all(divided.job(), restore="epoch:1/2")
    run_all(divided.job(), restore="epoch:2/5")  # of an abandoned generation
    divided.check()


def test_other_partitions_than_those_of_the_table_are_refused(divided: Divided) -> None:
    run_all(divided.job())
    head = newest(divided.folder / "root", NAME)
    for other, said in (((), r"partitioned by 'k', 'even'.*"), (("even", "k"), r"partitioned by 'k', 'even'")):
        with pytest.raises(SinkError, match=said) as raised:
            divided.job(other).start(available_now=True)
        assert "partition_by=['k', 'even']" in raised.value.action
    assert newest(divided.folder / "root", NAME) == head


@pytest.mark.parametrize(
    ("partition_by", "said"),
    [
        ("gone", "partition_by='gone'; the stream has k, sub, n, even"),
        (["k", "k"], r"partition_by=\['k', 'k'\]"),
        (["k", "sub", "n", "even"], "all columns of the stream"),
    ],
)
def test_columns_that_cannot_divide_a_table(divided: Divided, partition_by: Any, said: str) -> None:
    with pytest.raises(JobDefinitionError, match=said):
        divided.job(partition_by)
