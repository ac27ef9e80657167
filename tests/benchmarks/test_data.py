from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data import (
    draw_keys,
    first_epochs,
    key_column,
    numbers_truth,
    same_rows,
    write_worker_memory,
)
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.inputs import write_stream


def write(folder: Path, key_type: str = "int", epochs: int = 3) -> list[Path]:
    write_stream(
        folder,
        WORKLOADS["running_count"],
        records=25,
        keys=7,
        key_type=key_type,
        epochs=epochs,
        epoch_records=10,
        files_per_epoch=2,
    )
    return sorted(folder.glob("*.parquet"))


def test_the_same_keys_are_drawn_each_time() -> None:
    assert sha256(draw_keys(1000, 50).tobytes()).hexdigest() == (
        "92b8f4a058c3ff86720b2c671416eef772ac21095ec706479a8cce8861ba160e"
    )


def test_drawing_more_keys_begins_with_the_same_ones() -> None:
    assert draw_keys(1000, 50)[:100].tolist() == draw_keys(100, 50).tolist()


def test_string_keys_are_made_of_the_same_numbers() -> None:
    numbers = np.array([0, 42], dtype=np.int64)

    assert key_column(numbers, "int").to_pylist() == [0, 42]
    assert key_column(numbers, "string").to_pylist() == ["user-0000000000", "user-0000000042"]


def test_an_unknown_key_type_is_refused() -> None:
    with pytest.raises(ValueError, match="neither int nor string"):
        key_column(np.array([1], dtype=np.int64), "date")


@pytest.mark.parametrize("key_type", ["int", "string"])
def test_two_writings_give_the_same_bytes(tmp_path: Path, key_type: str) -> None:
    once, again = write(tmp_path / "once", key_type), write(tmp_path / "again", key_type)

    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_files_grow_younger_in_the_order_of_their_names(tmp_path: Path) -> None:
    modified = [path.stat().st_mtime for path in write(tmp_path)]

    assert modified == sorted(set(modified))


def test_an_epoch_has_its_files_and_its_records_and_replays_the_data_set(tmp_path: Path) -> None:
    files = write(tmp_path)
    drawn = draw_keys(25, 7).tolist()
    epochs = [(drawn + drawn[:5])[start : start + 10] for start in (0, 10, 20)]

    read = [pq.read_table(path)["k"].to_pylist() for path in files]

    assert read == [[key for key in epoch if key % 2 == part] for epoch in epochs for part in (0, 1)]


def test_the_first_epochs_are_the_same_files_with_the_same_times(tmp_path: Path) -> None:
    files = write(tmp_path / "all")

    part = first_epochs(tmp_path / "all", tmp_path / "part", 4)

    assert [path.stat().st_mtime for path in sorted(part.iterdir())] == [path.stat().st_mtime for path in files[:4]]
    assert all(path.samefile(part / path.name) for path in files[:4])


def test_worker_memory_brings_each_key_once_per_pass(tmp_path: Path) -> None:
    write_worker_memory(tmp_path, keys=40, passes=2, epoch_records=10, files_per_epoch=2)

    truth = numbers_truth(tmp_path)

    assert len(list(tmp_path.iterdir())) == 16
    assert sorted(truth["k"].to_pylist()) == list(range(40))
    assert set(truth["n"].to_pylist()) == {2}


TRUTH = pa.table({"k": [1, 2], "n": [10, 20]})


def test_rows_of_one_key_are_compared_without_regard_to_their_order() -> None:
    truth = pa.table({"k": [1, 1, 2], "v": [5, 6, 7]})

    assert same_rows(pa.table({"k": [1, 2, 1], "v": [6, 7, 5]}), truth)
    assert not same_rows(pa.table({"k": [1, 2, 1], "v": [6, 7, 6]}), truth)


def test_rows_are_compared_without_regard_to_order_and_width() -> None:
    actual = pa.table({"key": pa.array([2, 1], pa.int32()), "value": pa.array([20, 10], pa.int64())})

    assert same_rows(actual, TRUTH)


@pytest.mark.parametrize(
    "actual",
    [
        pa.table({"k": [1, 2], "n": [10, 21]}),
        pa.table({"k": [1, 3], "n": [10, 20]}),
        pa.table({"k": [1], "n": [10]}),
        pa.table({"k": [1, 2, 2], "n": [10, 20, 20]}),
        pa.table({"k": [1, 2], "n": [10, None]}),
        pa.table({"k": [1, 2]}),
        pa.table({"k": ["a", "b"], "n": [10, 20]}),
    ],
    ids=["count", "key", "missing", "twice", "null", "columns", "type"],
)
def test_any_other_row_is_a_difference(actual: pa.Table) -> None:
    assert not same_rows(actual, TRUTH)
