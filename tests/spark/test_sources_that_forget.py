"""Sources that cannot read again what they have read."""

from pathlib import Path
from typing import Any

import pytest

from state_engine.errors import SourcesChangedError
from state_engine.spark import StreamJob

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("kind", "options"), [("socket", {"host": "127.0.0.1", "port": "9"}), ("rate", {})])
def test_they_are_refused_unless_declared(spark: Any, tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    df = spark.readStream.format(kind).options(**options).load()
    with pytest.raises(SourcesChangedError, match="replays=False"):
        StreamJob("forgetful", root=tmp_path).from_stream(df)
    StreamJob("forgetful", root=tmp_path).from_stream(df, replays=False)


def test_a_replaying_source_needs_no_word(spark: Any, tmp_path: Path) -> None:
    df = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "3").load()
    StreamJob("remembering", root=tmp_path).from_stream(df)
