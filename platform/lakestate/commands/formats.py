"""Formats bytes, counts, durations and times for people."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def format_bytes(count: float | None) -> str:
    """Returns for instance `512 B`, `1.5 KiB`, `20 MiB`; an empty text for None."""
    if count is None:
        return ""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in _UNITS:
        count /= 1024
        if count < 1023.5 or unit == _UNITS[-1]:
            break
    return f"{count:.1f} {unit}" if count < 9.95 else f"{count:,.0f} {unit}"


def format_count(count: float | None) -> str:
    """Returns for instance `1,234`; an empty text for None."""
    return "" if count is None else f"{count:,.0f}"


def number_of(count: int, thing: str) -> str:
    """Returns for instance `1 epoch`, `1,234 epochs`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def format_duration(milliseconds: float | None) -> str:
    """Returns at most two units: `42 ms`, `3.2 s`, `4 min 5 s`, `2 h 3 min`, `3 d 4 h`; an empty text for None."""
    if milliseconds is None:
        return ""
    if milliseconds < 0:
        return f"-{format_duration(-milliseconds)}"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < _MINUTE:
        return f"{milliseconds // 100 / 10:.1f} s"
    for unit, name, part, part_name in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min")):
        if milliseconds >= unit:
            whole, rest = divmod(int(milliseconds), unit)
            return f"{whole:,} {name} {rest // part} {part_name}"
    whole, rest = divmod(int(milliseconds), _MINUTE)
    return f"{whole} min {rest // _SECOND} s"


def format_time(milliseconds: int | None, *, ms: bool = False) -> str:
    """Returns a time in UTC, such as `2023-11-14 22:13:20Z`, with `ms` to the millisecond; an empty text for None.

    A time beyond the calendar, such as a watermark in the year 300,000, is returned in milliseconds.
    """
    if milliseconds is None:
        return ""
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds)
        return time.strftime(f"%Y-%m-%d %H:%M:%S{f'.{time.microsecond // 1_000:03}' if ms else ''}Z")
    except OverflowError:
        return f"{milliseconds} ms"


__all__ = ["format_bytes", "format_count", "format_duration", "format_time", "number_of"]
