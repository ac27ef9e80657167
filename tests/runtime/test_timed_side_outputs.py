"""Event times of side outputs: outputs that operators read have them, outputs that only sinks read do not."""

from state_engine.api import OutputTag
from state_engine.api.output_tag import columns_type
from state_engine.runtime.emitted import EVENT_TIME, Emitted, EmittedWriter
from state_engine.serialization.copies import RowCopies

COLUMNS = columns_type("v bigint", "test")
ODD, LATE = OutputTag("odd", COLUMNS), OutputTag("late", COLUMNS)


def emitted(*, timed: bool = True) -> Emitted:
    made = Emitted(RowCopies(COLUMNS), timed=timed)
    made.add([(1,), (ODD, (2,)), (LATE, (3,))], 10)
    made.add([(ODD, (4,)), (5,), (OutputTag("unread"), (6,))], 20)
    made.add([(ODD, (7,))], None)
    return made


def written(writer: EmittedWriter, *, timed: bool = True) -> dict[str, dict[str, list[int | None]]]:
    return {output: batch.to_pydict() for output, batch in writer.write(emitted(timed=timed)).items()}


def test_each_row_has_the_time_of_the_record_or_timer_that_it_was_made_at() -> None:
    writer = EmittedWriter(COLUMNS, {"odd": COLUMNS, "late": COLUMNS}, timed_side_outputs=["odd"])
    for _ in range(2):  # also after it has seen tags
        assert written(writer) == {
            "main": {"v": [1, 5], EVENT_TIME: [10, 20]},
            "odd": {"v": [2, 4, 7], EVENT_TIME: [10, 20, None]},
            "late": {"v": [3]},
        }


def test_without_times_none_has_them() -> None:
    writer = EmittedWriter(COLUMNS, {"odd": COLUMNS})
    assert written(writer, timed=False) == {"main": {"v": [1, 5]}, "odd": {"v": [2, 4, 7]}}
