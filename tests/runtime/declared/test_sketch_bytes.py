"""The bytes of sketches, as released. Run this file as a program to write new ones, and tell the reviewer."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api.keys import Keys
from state_engine.runtime.declared.sketches import DistinctCount, Quantile

GOLDEN = Path(__file__).parent / "golden"
HLL = {"list": 3, "set": 100, "array": 20_000}
KLL = {"one": 1, "exact": 200, "estimated": 20_000}
NUMBERS = np.random.default_rng(0).permutation(20_000).astype(float)
LARGEST = {count: float(NUMBERS[:count].max()) for count in KLL.values()}


def keys_of(count: int) -> Keys:
    return Keys([pa.array([0] * count)], lambda columns: columns[0].to_pylist())


def written(accumulator: DistinctCount | Quantile, values: pa.Array, stored: bytes | None = None) -> bytes:
    [sketches] = accumulator.folded(keys_of(len(values)), [pa.array([stored], pa.binary())], values)
    return sketches[0].as_py()


def given(accumulator: DistinctCount | Quantile, sketch: bytes) -> float:
    return accumulator.given([pa.array([sketch], pa.binary())])[0].as_py()


def hll(count: int) -> bytes:
    return written(DistinctCount(), pa.array(range(count)))


def kll(count: int) -> bytes:
    return written(Quantile(0.5), pa.array(NUMBERS[:count]))


@pytest.mark.parametrize("mode", HLL)
def test_distinct_counts(mode: str) -> None:
    stored, count = (GOLDEN / f"hll-{mode}.sketch").read_bytes(), HLL[mode]
    assert given(DistinctCount(), stored) == pytest.approx(count, rel=0 if count < 1000 else 0.03)
    assert stored[:2] == bytes([stored[0], 1]), "version 1 of the library's format"
    assert stored == hll(count), "what is written today"
    again = written(DistinctCount(), pa.array(range(count)), stored)
    assert given(DistinctCount(), again) == given(DistinctCount(), stored), "values have the same hashes as before"


@pytest.mark.parametrize("mode", KLL)
def test_quantiles(mode: str) -> None:
    stored, count = (GOLDEN / f"kll-{mode}.sketch").read_bytes(), KLL[mode]
    assert stored[1] == (2 if count == 1 else 1), "versions 1 and 2 of the library's format"
    assert given(Quantile(1), stored) == LARGEST[count]
    median = given(Quantile(0.5), stored)
    assert (NUMBERS[:count] <= median).mean() == pytest.approx(0.5, abs=0 if 1 < count < 1000 else 0.5 / count + 0.03)
    if count < 1000:
        assert stored == kll(count), "as it is written today; with more numbers it is random"
    assert given(Quantile(1), written(Quantile(1), pa.array([1e9]), stored)) == 1e9


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for mode, count in HLL.items():
        (GOLDEN / f"hll-{mode}.sketch").write_bytes(hll(count))
    for mode, count in KLL.items():
        (GOLDEN / f"kll-{mode}.sketch").write_bytes(kll(count))
