"""Lengths of time as people write them, on the command line and in YAML."""

from state_engine.errors import JobDefinitionError

_UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_of(text: str) -> int:
    """Returns a length of time such as `90s`, `10 min`, `12h`, `7d`, `2w` in milliseconds.

    Raises:
        JobDefinitionError: The text is not a length of time.
    """
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz").rstrip()
    unit = text.strip()[len(number) :].strip()
    if not (number.isascii() and number.isdecimal() and unit in _UNITS):
        raise JobDefinitionError(
            f"{text!r} is not a length of time.",
            action=f"Use a whole number with one of {', '.join(_UNITS)}, such as 7d.",
        )
    return int(number) * _UNITS[unit]


__all__ = ["duration_of"]
