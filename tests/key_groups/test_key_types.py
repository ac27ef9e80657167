"""What can be a key, and what cannot."""

import datetime

import pytest

from state_engine.errors import UnsupportedTypeError
from state_engine.key_groups import key_hasher


@pytest.mark.parametrize(
    "ddl", ["double", "float", "array<int>", "map<string,int>", "struct<a:int>", "string collate UTF8_LCASE", "variant"]
)
def test_types_without_exact_equality_are_refused_by_name(ddl: str) -> None:
    with pytest.raises(UnsupportedTypeError) as refused:
        key_hasher(["int", ddl])
    assert ddl in str(refused.value)
    assert "cast" in refused.value.action


def test_the_zone_of_an_instant_does_not_count() -> None:
    utc = datetime.datetime(2024, 7, 1, 6, 30, tzinfo=datetime.UTC)
    hash_key = key_hasher(["timestamp"])
    assert hash_key((utc,)) == hash_key((utc.astimezone(datetime.timezone(datetime.timedelta(hours=5, minutes=30))),))


def test_a_key_with_too_few_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        key_hasher(["int", "int"])((1,))
