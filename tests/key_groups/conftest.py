"""Golden vectors: hashes that Spark computed once.

`golden.json` lists, per combination of key types, rows of `[value, …, hash]`. Values are spelled so that JSON keeps
them: binary as hexadecimal digits, decimals and times as text.
"""

import datetime
import decimal
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

GOLDEN = Path(__file__).with_name("golden.json")

DECODERS: dict[str, Callable[[Any], Any]] = {
    "binary": bytes.fromhex,
    "date": datetime.date.fromisoformat,
    "timestamp": datetime.datetime.fromisoformat,
    "timestamp_ntz": datetime.datetime.fromisoformat,
    "decimal": decimal.Decimal,
}


class Vector(NamedTuple):
    types: tuple[str, ...]
    values: tuple[Any, ...]
    hash: int


def decode(value: Any, ddl: str) -> Any:
    return None if value is None else DECODERS.get(ddl.split("(")[0], lambda v: v)(value)


def read_vectors(path: Path = GOLDEN) -> Iterator[Vector]:
    for case in json.loads(path.read_text()):
        types = tuple(case["types"])
        for *values, hashed in case["rows"]:
            yield Vector(types, tuple(map(decode, values, types)), hashed)


@pytest.fixture(scope="session")
def vectors() -> list[Vector]:
    return list(read_vectors())
