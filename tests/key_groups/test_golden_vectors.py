"""Python hashes keys as Spark does, bit for bit, with any seed of Python's own hash."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from state_engine.key_groups import SEED, Hashes, hash_integers, hash_values, key_group_of, key_hasher

DIGEST = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("vectors", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from state_engine.key_groups import key_hasher
print([key_hasher(v.types)(v.values) for v in module.read_vectors()])
"""


def test_the_golden_hashes(vectors: list[Any]) -> None:
    wrong = [v for v in vectors if key_hasher(v.types)(v.values) != v.hash]
    assert not wrong


def test_the_golden_file_covers_all_key_types(vectors: list[Any]) -> None:
    from state_engine.api.types import KEY_ATOMS

    covered = {ddl.split("(")[0] for vector in vectors for ddl in vector.types}
    assert covered == {*KEY_ATOMS, "decimal"}


def test_a_null_leaves_the_hash_of_the_other_columns(vectors: list[Any]) -> None:
    assert key_hasher(["string", "int"])((None, 7)) == key_hasher(["int"])((7,))
    assert all(v.hash == 42 for v in vectors if all(value is None for value in v.values))


def test_int_and_bigint_hash_differently() -> None:
    assert key_hasher(["int"])((7,)) != key_hasher(["bigint"])((7,))


def seeds(count: int) -> Hashes:
    return np.full(count, SEED, np.uint64)


@pytest.mark.parametrize("max_parallelism", [1, 13, 128, 32768])
def test_a_key_group_is_the_hash_modulo_the_number_of_groups(vectors: list[Any], max_parallelism: int) -> None:
    for vector in vectors:
        group = key_group_of(vector.values, vector.types, max_parallelism)
        assert group == vector.hash % max_parallelism
        assert 0 <= group < max_parallelism


@pytest.mark.parametrize("ddl", ["tinyint", "smallint", "int", "bigint"])
def test_whole_columns_of_integers_hash_alike(vectors: list[Any], ddl: str) -> None:
    mine = [v for v in vectors if v.types == (ddl,) and v.values[0] is not None]
    assert mine
    hashes = hash_integers(np.array([v.values[0] for v in mine]), ddl, seeds(len(mine)))
    assert hashes.view(np.int64).tolist() == [v.hash for v in mine]


def test_whole_columns_of_any_type_hash_alike_after_others(vectors: list[Any]) -> None:
    for types in {vector.types for vector in vectors}:
        mine = [vector for vector in vectors if vector.types == types]
        hashes = seeds(len(mine))
        for position, ddl in enumerate(types):
            hashes = hash_values([vector.values[position] for vector in mine], ddl, hashes)
        assert hashes.view(np.int64).tolist() == [vector.hash for vector in mine]


@pytest.mark.parametrize("ddl", ["int", "bigint"])
def test_whole_columns_of_random_integers_hash_alike(ddl: str) -> None:
    bits = 31 if ddl == "int" else 63
    values = np.random.default_rng(1).integers(-(1 << bits), (1 << bits) - 1, 2000, endpoint=True)
    one, hashes = key_hasher([ddl]), hash_integers(values, ddl, seeds(len(values)))
    assert hashes.view(np.int64).tolist() == [one((v,)) for v in values.tolist()]


def test_an_empty_column_hashes_to_nothing() -> None:
    assert hash_integers(np.array([], dtype=np.int64), "bigint", seeds(0)).tolist() == []


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_hash_does_not_depend_on_pythons_own(vectors: list[Any], seed: str) -> None:
    code = [sys.executable, "-c", DIGEST, str(Path(__file__).with_name("conftest.py"))]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    root = Path(__file__).parents[2]
    done = subprocess.run(code, env=environment, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([v.hash for v in vectors])
