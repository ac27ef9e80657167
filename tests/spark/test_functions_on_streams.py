"""What is refused of `map`, `flat_map`, `filter`, `reduce` and running aggregations, and what operators are called."""

from pathlib import Path
from typing import Any

import pytest
from shared_jobs.functions import Numbered
from support import Input

from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.spark import StreamJob

pytestmark = pytest.mark.spark


@pytest.fixture
def stream(spark, tmp_path: Path) -> Any:
    job = StreamJob("functions-refused", root=str(tmp_path / "root"), parallelism=2)
    return job.from_stream(Input(tmp_path / "in").add_many(1).stream(spark))


def test_a_plain_map_before_the_first_operator_says_that_a_uid_helps(stream) -> None:
    with pytest.raises(UnsupportedTopologyError) as caught:
        stream.map(lambda value: value, stream.columns)
    assert "map(..., uid=...)" in caught.value.action
    assert stream.map(lambda value: value, stream.columns, uid="map").columns == stream.columns


@pytest.mark.parametrize("verb", ["sum", "min", "max", "min_by", "max_by"])
def test_a_field_that_is_not_there(stream, verb: str) -> None:
    with pytest.raises(JobDefinitionError, match=rf"{verb}\(\) got the field 'w'; the stream has n, k, sub, v"):
        getattr(stream.key_by("k"), verb)("w", uid="a")


def test_without_a_uid_the_warning_names_what_was_called_and_points_at_the_job(stream) -> None:
    with pytest.warns(UserWarning, match=r"'max-by-1' .* Give max_by\(\.\.\., uid=\.\.\.\)") as caught:
        stream.key_by("k").max_by("v")
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_a_map_function_without_key_has_no_keyed_state(stream) -> None:
    with pytest.raises(JobDefinitionError, match=r"'times'.*no key"):
        stream.map(Numbered(), "n bigint, k string, times bigint", uid="a")
