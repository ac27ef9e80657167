"""Tables of the scenarios that are not replayed as they were recorded.

When a feature is added, delete its line in `NOT_YET`: until then its scenarios are strict xfails, and fail the suite
once they pass.
"""

from typing import Any, NamedTuple

NOT_YET: dict[str, str] = {}
"""Features that scenarios need and this project does not have yet; a scenario names what it needs in `needs`."""


class Different(NamedTuple):
    """A scenario that has another result here, on purpose.

    Attributes:
        reason: Why; docs/pyflink.md explains it to authors.
        rows: What the steps with these numbers return here instead.
    """

    reason: str
    rows: dict[int, list[list[Any]]]


DIFFERENT = {
    "event_timers.an_element_without_timestamp": Different(
        "timestamp() of a record without event time is None, as PyFlink documents it; PyFlink gives -2^63",
        {
            0: [["a", "element at None, watermark -9223372036854775808"]],
            2: [["a", "element at None, watermark 10"]],
        },
    ),
    "event_timers.registered_in_the_past_with_elements": Different(
        "due timers fire at the start of an epoch, before its records, whether the watermark rose or not",
        {
            2: [
                ["a", "timer 10 at 10, EVENT_TIME, watermark 50, note None"],
                ["a", "element at 59, watermark 50"],
            ],
            3: [],
        },
    ),
    "session_windows.reduce": Different(
        "PyFlink keeps one part of a reduced value when sessions merge; Flink's Java API keeps them all, and so do we",
        {8: [["a", "[1, 40) [4712]"]]},
    ),
    "session_windows.aggregate": Different(
        "PyFlink keeps one part of an accumulator when sessions merge; Flink's Java API keeps them all, and so do we",
        {8: [["a", "[1, 40) ['68/5'], watermark 9223372036854775807"]]},
    ),
    "state_types.floats": Different(
        "a FLOAT has 32 bits, as in Java; PyFlink keeps Python's 64 bits as long as the value stays where it is",
        {2: [["a", "0.10000000149011612"]], 3: [["a", "16777216.0"]]},
    ),
    "state_types.decimals": Different(
        "BIG_DEC is decimal(38,18): a decimal has all 18 places",
        {1: [["a", "Decimal('1.500000000000000000')"]]},
    ),
}
"""By `group.scenario`."""

WRONG_WITHIN_AN_EPOCH: dict[str, str] = {}
"""Scenarios that give other results when epochs are cut differently, which is a fault; strict xfails until mended."""

ONE_AFTER_THE_OTHER = dict.fromkeys(
    ("broadcast.keyed_reads_the_rules", "broadcast.side_outputs_of_both_sides", "broadcast.without_key_two_states",
     "broadcast.a_timer_reads_the_rules"),
    "the broadcast elements of an epoch come before its records",
)  # fmt: skip
"""Scenarios that differ on purpose when records share an epoch; docs/pyflink.md documents the reason too."""

IN_EVERY_SUBTASK = dict.fromkeys(
    ("broadcast.keyed_reads_the_rules", "broadcast.side_outputs_of_both_sides", "broadcast.a_timer_reads_the_rules"),
    "what the broadcast side emits comes once from every subtask, as in Flink",
)
"""Scenarios that give another result at another parallelism, on purpose."""

OTHER_TIMES = dict.fromkeys(
    ("event_windows.lateness_fires_again", "event_windows.lateness_of_an_empty_window",
     "event_windows.lateness_of_sliding_windows", "event_windows.lateness_of_reduced_windows",
     "event_windows.state_of_window_and_key", "other_windows.purging_event_time",
     "other_windows.tumbling_with_count_trigger", "other_windows.continuous_event_time",
     "other_windows.custom_trigger", "other_windows.custom_trigger_that_merges"),
    "the result of a window has the window's last time, as in Flink's Java API; PyFlink gives the time of the record "
    "or timer that made it fire",
)  # fmt: skip
"""Scenarios with other timestamps of rows here, on purpose."""
