import pytest

from lakestate.commands.formats import format_bytes, format_count, format_duration, format_time


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, ""),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (20 * 1024, "20 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 62, "4,096 PiB"),
    ],
)
def test_bytes(count: int | None, shown: str) -> None:
    assert format_bytes(count) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, ""),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_949, "59.9 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (26 * 3_600_000, "1 d 2 h"),
        (-1500, "-1.5 s"),
    ],
)
def test_durations(milliseconds: int | None, shown: str) -> None:
    assert format_duration(milliseconds) == shown


def test_times_are_utc_and_may_be_beyond_the_calendar() -> None:
    assert format_time(1_700_000_000_000) == "2023-11-14 22:13:20Z"
    assert format_time(1 << 62) == f"{1 << 62} ms"
    assert format_time(None) == ""


def test_counts() -> None:
    assert [format_count(n) for n in (None, 0, 1234567)] == ["", "0", "1,234,567"]
