"""Outputs and states equal those of a plain loop, at every parallelism and number of key groups."""

from itertools import product
from pathlib import Path

import pytest
from support import Input, assert_tally, outputs, run_all, tally_job

pytestmark = pytest.mark.spark


QUICK = [(7, 128)]


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism"),
    [
        pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.long)
        for pair in product([1, 2, 3, 7, 13], [13, 128])
    ],
)
def test_every_parallelism_gives_the_same(spark, tmp_path: Path, parallelism: int, max_parallelism: int) -> None:
    source = Input(tmp_path / "in").add_many(2, rows=200)
    sinks = outputs(tmp_path / "out")
    name = f"p{parallelism}-m{max_parallelism}"
    job = tally_job(source.stream(spark), tmp_path / "root", name, sinks, parallelism, max_parallelism=max_parallelism)
    client = run_all(job)
    assert [e.records for e in client.epochs] == [200] * 2
    assert_tally(tmp_path / "root", name, sinks, source.all)


def test_records_of_several_files_in_one_epoch_are_ordered_too(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(4, rows=40)
    sinks = outputs(tmp_path / "out")
    client = run_all(tally_job(source.stream(spark, per_epoch=4), tmp_path / "root", "one-epoch", sinks, 3))
    assert len(client.epochs) == 1
    assert_tally(tmp_path / "root", "one-epoch", sinks, source.all)
