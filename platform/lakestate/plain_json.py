"""Encodes JSON from text of any origin, such as names and messages that a plain encoder may refuse."""

from typing import Any

import msgspec

from state_engine.text import plain

_encoder = msgspec.json.Encoder()


def encode_plain(value: Any) -> bytes:
    """Returns a value as JSON. Text without UTF-8 form, such as half of a surrogate pair, is escaped, not refused."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_plain(msgspec.to_builtins(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {_plain(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


__all__ = ["encode_plain"]
