"""What every sink in a system with transactions must do: a suite of tests for a `TransactionalSink`.

Derive a test class and define the fixture `subject`:

```python
class TestMySink(SinkSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> SinkSubject:
        return SinkSubject(MySink(tmp_path / "db"), rows=lambda: my_rows(tmp_path / "db"))
```

The sink gets rows with the columns `k` (text) and `n` (a 64-bit integer). `rows` reads what the system has without the
sink under test.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pytest

from state_engine.api.sinks import SinkConnection, SinkMarker, SinkName, TransactionalSink
from state_engine.errors import MissingFileError

_TYPES: list[tuple[str, pa.DataType]] = [("k", pa.string()), ("n", pa.int64())]
COLUMNS = pa.schema(_TYPES)
NAME = SinkName("job", "out")
LOG = (1 << 60) - 1
FIRST, SECOND, THIRD = SinkMarker(LOG, 1, 0), SinkMarker(LOG, 1, 1), SinkMarker(LOG, 1, 2)
_SECONDS = 60

Row = tuple[str, int]


@dataclass
class SinkSubject:
    """The sink under test, which appends to an empty system, and a function that returns all rows of the system."""

    sink: TransactionalSink
    rows: Callable[[], Sequence[Row]]


def batches(*rows: Row) -> list[pa.RecordBatch]:
    """Returns a batch for each row."""
    return [pa.record_batch([pa.array([k]), pa.array([n])], schema=COLUMNS) for k, n in rows]


class SinkSuite:
    """Tests of the two classes; each test checks one guarantee of `SinkConnection`.

    A subclass defines a fixture `subject`, the `SinkSubject` under test.
    """

    @pytest.fixture
    def connection(self, subject: SinkSubject) -> Iterator[SinkConnection]:
        """A connection to a system that is prepared and has the first marker."""
        with closing(subject.sink.connect(NAME, COLUMNS)) as connection:
            connection.prepare()
            assert connection.commit((), None, FIRST)
            yield connection

    def test_the_address_is_the_same_each_time(self, subject: SinkSubject) -> None:
        assert subject.sink.address == subject.sink.address != ""

    def test_an_empty_system_has_no_marker_and_a_check_makes_none(self, subject: SinkSubject) -> None:
        with closing(subject.sink.connect(NAME, COLUMNS)) as connection:
            assert connection.marker() is None
            connection.check()
            assert connection.marker() is None

    def test_without_columns_only_the_marker_is_asked_for(self, subject: SinkSubject) -> None:
        with closing(subject.sink.connect(NAME, None)) as connection:
            connection.check()
            assert connection.marker() is None

    def test_preparing_twice_changes_nothing(self, subject: SinkSubject, connection: SinkConnection) -> None:
        connection.commit(batches(("a", 1)), FIRST, SECOND)
        connection.prepare()
        assert connection.marker() == SECOND
        assert list(subject.rows()) == [("a", 1)]

    def test_rows_and_marker_are_there_after_a_commit(self, subject: SinkSubject, connection: SinkConnection) -> None:
        assert connection.commit(batches(("a", 1), ("b", -(2**63))), FIRST, SECOND)
        assert connection.marker() == SECOND
        with closing(subject.sink.connect(NAME, COLUMNS)) as other:
            assert other.marker() == SECOND
        assert sorted(subject.rows()) == [("a", 1), ("b", -(2**63))]

    def test_a_first_marker_is_refused_where_there_is_one(
        self, subject: SinkSubject, connection: SinkConnection
    ) -> None:
        assert connection.commit(batches(("a", 1)), None, SECOND) is False
        assert connection.marker() == FIRST
        assert list(subject.rows()) == []

    @pytest.mark.parametrize(
        "before",
        [SECOND, SinkMarker(LOG - 1, 1, 0), SinkMarker(LOG, 2, 0), THIRD],
        ids=["epoch", "log", "generation", "later"],
    )
    def test_another_marker_than_expected_changes_nothing(
        self, subject: SinkSubject, connection: SinkConnection, before: SinkMarker
    ) -> None:
        assert connection.commit(batches(("a", 1)), before, SinkMarker(LOG, 9, 9)) is False
        assert connection.marker() == FIRST
        assert list(subject.rows()) == []

    def test_a_commit_that_comes_again_is_refused(self, subject: SinkSubject, connection: SinkConnection) -> None:
        assert connection.commit(batches(("a", 1)), FIRST, SECOND)
        assert connection.commit(batches(("a", 1)), FIRST, SECOND) is False
        assert list(subject.rows()) == [("a", 1)]

    def test_an_expected_marker_is_refused_where_there_is_none(self, subject: SinkSubject) -> None:
        with closing(subject.sink.connect(NAME, COLUMNS)) as connection:
            connection.prepare()
            assert connection.commit(batches(("a", 1)), FIRST, SECOND) is False
            assert connection.marker() is None
        assert list(subject.rows()) == []

    def test_a_commit_without_rows_moves_the_marker(self, subject: SinkSubject, connection: SinkConnection) -> None:
        assert connection.commit((), FIRST, SinkMarker(LOG, 2, 0))
        assert connection.marker() == SinkMarker(LOG, 2, 0)
        assert list(subject.rows()) == []

    def test_a_rewind_moves_the_marker_and_keeps_the_rows(
        self, subject: SinkSubject, connection: SinkConnection
    ) -> None:
        connection.commit(batches(("a", 1)), FIRST, SECOND)
        assert connection.rewind(batches(("a", 1)), SECOND, SinkMarker(LOG, 2, 0))
        assert connection.marker() == SinkMarker(LOG, 2, 0)
        assert connection.rewind((), SECOND, SinkMarker(LOG, 3, 0)) is False
        assert list(subject.rows()) == [("a", 1)]

    @pytest.mark.parametrize("good", [0, 1, 2])
    def test_rows_that_cannot_be_read_to_their_end_change_nothing(
        self, subject: SinkSubject, connection: SinkConnection, good: int
    ) -> None:
        def rows() -> Iterator[pa.RecordBatch]:
            yield from batches(*[("a", n) for n in range(good)])
            raise MissingFileError("a staged file is gone", action="")

        with pytest.raises(MissingFileError, match="a staged file is gone"):
            connection.commit(rows(), FIRST, SECOND)
        connection.close()
        with closing(subject.sink.connect(NAME, COLUMNS)) as other:
            assert other.marker() == FIRST
            assert list(subject.rows()) == []
            assert other.commit(batches(("b", 1)), FIRST, SECOND)
        assert list(subject.rows()) == [("b", 1)]

    def test_nobody_sees_half_a_commit(self, subject: SinkSubject, connection: SinkConnection) -> None:
        seen: list[object] = []

        def rows() -> Iterator[pa.RecordBatch]:
            yield from batches(("a", 1))
            with closing(subject.sink.connect(NAME, COLUMNS)) as other:
                seen.extend([other.marker(), list(subject.rows())])
            yield from batches(("b", 2))

        assert connection.commit(rows(), FIRST, SECOND)
        assert seen == [FIRST, []]
        assert sorted(subject.rows()) == [("a", 1), ("b", 2)]

    def test_of_two_drivers_at_one_time_one_commits(self, subject: SinkSubject, connection: SinkConnection) -> None:
        """Either may be the one: a database lets the later one wait, Kafka fences the earlier one."""
        outcomes: dict[str, object] = {}
        running = threading.Event()

        def commit(name: str, through: SinkConnection, rows: Iterable[pa.RecordBatch]) -> None:
            try:
                outcomes[name] = through.commit(rows, FIRST, SECOND)
            except Exception as error:
                outcomes[name] = error

        def late() -> None:
            running.set()
            with closing(subject.sink.connect(NAME, COLUMNS)) as other:
                commit("late", other, batches(("late", 1), ("late", 2)))

        other = threading.Thread(target=late, daemon=True)

        def rows() -> Iterator[pa.RecordBatch]:
            yield from batches(("early", 1))
            other.start()
            running.wait(_SECONDS)
            other.join(0.2)  # it waits for this commit, has been refused, or goes first
            yield from batches(("early", 2))

        commit("early", connection, rows())
        other.join(_SECONDS)
        assert not other.is_alive()
        [winner] = [name for name, outcome in outcomes.items() if outcome is True]
        assert sorted(subject.rows()) == [(winner, 1), (winner, 2)]
        with closing(subject.sink.connect(NAME, COLUMNS)) as third:
            assert third.marker() == SECOND

    @pytest.mark.parametrize("name", [SinkName("job", "other"), SinkName("other", "out")])
    def test_other_sinks_and_jobs_have_their_own_markers(
        self, subject: SinkSubject, connection: SinkConnection, name: SinkName
    ) -> None:
        with closing(subject.sink.connect(name, COLUMNS)) as other:
            assert other.marker() is None
            other.prepare()
            assert other.commit(batches(("other", 1)), None, SinkMarker(5, 7, 8))
            assert other.marker() == SinkMarker(5, 7, 8)
        assert connection.marker() == FIRST
        assert connection.commit(batches(("mine", 1)), FIRST, SECOND)
        assert sorted(subject.rows()) == [("mine", 1), ("other", 1)]

    def test_large_numbers_come_back(self, connection: SinkConnection) -> None:
        largest = SinkMarker(LOG, (1 << 23) - 1, (1 << 40) - 1)
        assert connection.commit((), FIRST, largest)
        assert connection.marker() == largest


def read_all(rows: Iterable[pa.RecordBatch]) -> list[Row]:
    """Returns rows as tuples: for systems in tests."""
    return [(k, n) for batch in rows for k, n in zip(*(c.to_pylist() for c in batch.columns), strict=True)]


__all__ = ["COLUMNS", "FIRST", "LOG", "NAME", "SECOND", "SinkSubject", "SinkSuite", "batches", "read_all"]
