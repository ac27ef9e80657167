"""`PostgresSink` keeps what every sink in a system with transactions must do."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from state_engine.spark import PostgresSink
from state_engine.testing.sink_suite import SinkSubject, SinkSuite

pytestmark = pytest.mark.slow  # a server of PostgreSQL


class _PostgresSuite(SinkSuite):
    options: ClassVar[dict[str, Any]] = {}
    columns = "k text, n bigint"

    @pytest.fixture
    def subject(
        self, sink_to: Callable[..., PostgresSink], query: Callable[..., list[Any]], schema: str
    ) -> SinkSubject:
        if self.columns:
            query(f"CREATE TABLE {schema}.counts ({self.columns})")

        def rows() -> list[tuple[str, int]]:
            if query("SELECT to_regclass(%s)", f"{schema}.counts") == [(None,)]:
                return []
            return [(k, int(n)) for k, n in query(f"SELECT k, n FROM {schema}.counts")]

        return SinkSubject(sink_to(**self.options), rows)


class TestACopyToATableOfItsOwn(_PostgresSuite):
    columns = ""


class TestACopyToAnExistingTable(_PostgresSuite):
    columns = "extra int DEFAULT 7, n bigint, k varchar(20), at timestamptz DEFAULT now()"


class TestAnInsertWithCasts(_PostgresSuite):
    columns = "k text, n numeric"


class TestAnUpsert(_PostgresSuite):
    columns = ""
    options: ClassVar[dict[str, Any]] = {"mode": "upsert", "keys": ["k", "n"]}
