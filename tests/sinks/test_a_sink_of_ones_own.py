"""The suite for authors' sinks, on a sink that keeps it; and on sinks with one mistake each, which it finds."""

from pathlib import Path

import pytest
from sqlite_sink import SqliteSink, rows_of

from state_engine.testing.sink_suite import SinkSubject, SinkSuite


class TestSqliteSink(SinkSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> SinkSubject:
        path = tmp_path / "counts.sqlite"
        return SinkSubject(SqliteSink(str(path)), rows=lambda: rows_of(path))
