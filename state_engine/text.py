"""Makes foreign text, such as messages and values, safe for every file and answer, and of bounded length."""

import re

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError)
"""What msgspec raises for bytes that it cannot decode; the second one for text that is no UTF-8."""

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def plain(text: str) -> str:
    """Returns text that every file, answer and terminal accepts.

    A lone surrogate has no UTF-8, PostgreSQL refuses NUL, and terminals obey other control characters. Each is replaced
    by its Python escape; tabs and line breaks stay.
    """
    return _UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shorten(text: str, limit: int) -> str:
    """Returns text of at most `limit` characters, cut in the middle: its beginning and its end stay.

    Args:
        text: Any text.
        limit: In characters. With fewer than 40 only the beginning stays.
    """
    if len(text) <= limit:
        return text
    if limit < 40:
        return f"{text[: limit - 1]}…"
    gap = f" … {len(text) - limit} more characters … "
    end = (limit - len(gap)) // 3
    return f"{text[: limit - len(gap) - end]}{gap}{text[-end:] if end else ''}"


__all__ = ["plain", "shorten"]
