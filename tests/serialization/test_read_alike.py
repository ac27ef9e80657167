"""Values of types that nothing can change are read back exactly as they are kept, whatever the function stored.

Stores rely on it: they keep such values after an epoch and do not read them back from its change file.
"""

import datetime
import decimal
import enum
import fractions
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from state_engine.api.type_hints import type_information
from state_engine.api.types import TypeInformation
from state_engine.serialization.atoms import ValueTypeError
from state_engine.serialization.convert import key_reader, reader, writer
from state_engine.serialization.finished import is_immutable
from state_engine.serialization.mutability import conformer, key_conformer


class Number(enum.IntEnum):
    FIVE = 5


class Text(str):
    """A text of a class of its own."""


class Moment(datetime.datetime):
    """A date and time of a class of its own."""


NOON = datetime.datetime(2020, 1, 1, 12, 0, 0, 5)
NEW_YORK = ZoneInfo("America/New_York")
STORED: list[Any] = [
    None, True, False, 0, -1, 2**31, 2**53 + 1, 2**63, Number.FIVE, "x", "", Text("x"), b"x", bytearray(b"x"),
    memoryview(b"x"), 1.5, 0.1, -0.0, float("nan"), float("inf"),
    np.bool_(True), np.int8(3), np.uint64(2**63), np.float32(0.1), np.float64(0.25), np.str_("x"), np.bytes_(b"x"),
    np.datetime64("2020-01-01"), np.datetime64("2020-01-01T01:02:03.5"), np.datetime64("NaT"), np.timedelta64("NaT"),
    *(decimal.Decimal(text) for text in ("1.5", "1.500", "-0", "NaN", "1E2")), fractions.Fraction(1, 2),
    NOON, NOON.replace(fold=1), NOON.replace(tzinfo=datetime.UTC), NOON.replace(tzinfo=ZoneInfo("UTC")),
    NOON.replace(tzinfo=NEW_YORK), datetime.datetime.max, datetime.datetime.max.replace(tzinfo=NEW_YORK),
    Moment(2020, 1, 1), Moment(2020, 1, 1, tzinfo=datetime.UTC), datetime.date(2020, 1, 1),
    pd.Timestamp(NOON), pd.Timestamp(NOON, tz="UTC"), pd.NaT, pd.NA, datetime.timedelta(1), [1], {}, object(),
]  # fmt: skip
TYPES = [
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "decimal(10,2)", "decimal(20,0)",
]  # fmt: skip


def spelled(value: Any) -> str:
    zone = id(value.tzinfo) if isinstance(value, datetime.datetime) else None
    return f"{type(value).__name__} {value!r} {zone}"


def accepted(kind: TypeInformation, values: list[Any], conform: Any) -> list[Any]:
    """Returns the values as they are kept, without those that the type refuses."""
    kept = []
    for value in values:
        try:
            one = conform(value)
            writer(kind)([one])
        except ValueTypeError:
            continue
        kept.append(one)
    return kept


@pytest.mark.parametrize("ddl", TYPES)
def test_atoms(ddl: str) -> None:
    kind = type_information(ddl)
    assert is_immutable(kind)
    kept = accepted(kind, STORED, conformer(kind))
    assert len(kept) > 1, "a value and null"
    assert list(map(spelled, reader(kind)(writer(kind)(kept)))) == list(map(spelled, kept))


@pytest.mark.parametrize("ddl", TYPES)
def test_rows(ddl: str) -> None:
    kind = type_information(f"struct<a:{ddl},b:struct<c:{ddl}>>")
    assert is_immutable(kind)
    kept = accepted(kind, [(value, (value,)) for value in STORED], conformer(kind))
    assert len(kept) > 1, "a value and null"
    for row, read in zip(kept, reader(kind)(writer(kind)(kept)), strict=True):
        assert (spelled(read.a), spelled(read.b.c)) == (spelled(row.a), spelled(row.b.c))


@pytest.mark.parametrize("ddl", TYPES)
def test_user_keys(ddl: str) -> None:
    kind = type_information(ddl)
    kept = accepted(kind, STORED, key_conformer(kind))
    assert len(kept) > 1, "a key and null"
    read = key_reader(kind)(writer(kind)(kept))
    assert list(map(spelled, read)) == list(map(spelled, kept))
    assert set(read) == set(kept), "NaN is found"


@pytest.mark.parametrize("ddl", TYPES)
def test_user_keys_that_are_rows(ddl: str) -> None:
    kind = type_information(f"struct<a:{ddl},b:struct<c:{ddl}>>")
    kept = accepted(kind, [(value, (value,)) for value in STORED], key_conformer(kind))
    read = key_reader(kind)(writer(kind)(kept))
    assert [(spelled(row.a), spelled(row.b.c)) for row in read] == [(spelled(row.a), spelled(row.b.c)) for row in kept]
    assert set(read) == set(kept), "NaN is found"


@pytest.mark.parametrize("ddl", [ddl for ddl in TYPES if not ddl.startswith(("date", "timestamp"))])
@pytest.mark.parametrize("nat", [np.datetime64("NaT"), np.timedelta64("NaT")])
def test_no_time_is_no_number_and_no_text(ddl: str, nat: Any) -> None:
    kind = type_information(ddl)
    with pytest.raises(ValueTypeError, match="NumPy's NaT is null among dates and timestamps only"):
        writer(kind)([conformer(kind)(nat)])
