"""Sessions of Spark Connect, which have no JVM in the process of the job."""

from pathlib import Path
from typing import Any

import pytest

from state_engine.errors import UnsupportedUpstreamError
from state_engine.spark import StreamJob


class Connected:
    """A double for a DataFrame of Spark Connect, which needs a server."""

    isStreaming = True  # Spark's name

    @property
    def _jdf(self) -> Any:
        raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED] Attribute `_jdf` is not supported in Spark Connect")


Connected.__module__ = "pyspark.sql.connect.dataframe"


def test_a_stream_of_spark_connect_is_refused_by_name(tmp_path: Path) -> None:
    stream: Any = Connected()
    with pytest.raises(UnsupportedUpstreamError, match="of Spark Connect") as caught:
        StreamJob("connect", root=str(tmp_path)).from_stream(stream)
    assert "classic session" in (caught.value.action or "")
