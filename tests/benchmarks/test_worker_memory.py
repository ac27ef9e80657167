from pathlib import Path

import pyarrow.dataset as ds

from benchmarks.engines.lakestate_functions import WIDTH, wide_text
from benchmarks.model import CONTENDERS
from benchmarks.worker_memory import BACKENDS, cases, truth_of


def test_a_bare_worker_does_the_same_work_over_the_keys_of_one_epoch(tmp_path: Path) -> None:
    heap, bare, rocksdb = cases(tmp_path, 2_000, BACKENDS, 16)

    assert [CONTENDERS[case.engine].label.removeprefix("lakestate/row") for case in (heap, bare, rocksdb)] == [
        "",
        "/bare",
        "/rocksdb",
    ]
    assert (bare.epochs, bare.epoch_records, bare.keys) == (
        rocksdb.epochs,
        rocksdb.epoch_records,
        rocksdb.epoch_records,
    )
    assert [case.memory_mb for case in (heap, bare, rocksdb)] == [None, 16, 16]
    for case in (heap, bare, rocksdb):
        records = ds.dataset(case.inputs, format="parquet").count_rows()
        assert records == case.epochs * case.epoch_records
        truth = truth_of(case)["numbers"]
        assert truth.num_rows == case.keys
        assert set(truth["n"].to_pylist()) == {records // case.keys}
        assert ("text" in truth.column_names) is (case is not heap)


def test_a_text_belongs_to_its_key() -> None:
    assert wide_text(7) == wide_text(7) != wide_text(8)
    assert len(wide_text(7)) == WIDTH
