"""Failures are sent in Java's serialization."""

import base64

import pytest

from lakestate.rest.java_throwable import MAX_TEXT, modified_utf8, serialized_throwable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", b"plain"),
        ("é", b"\xc3\xa9"),
        ("\0", b"\xc0\x80"),
        ("😀", b"\xed\xa0\xbd\xed\xb8\x80"),
        ("\ud800", b"\xed\xa0\x80"),
    ],
)
def test_text_is_written_as_java_writes_it(text: str, expected: bytes) -> None:
    assert modified_utf8(text) == expected


def test_the_stream_ends_with_trace_class_and_no_nested_exception() -> None:
    data = base64.b64decode(serialized_throwable("a.B", "it broke", "a.B: it broke\n\tat x"))
    assert data.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    assert data.endswith(b"t\x00\x13a.B: it broke\n\tat xt\x00\x03a.Bp")
    assert b"t\x00\x0da.B: it broke" in data


def test_long_texts_fit_into_javas_short_strings() -> None:
    data = base64.b64decode(serialized_throwable("a.B", "😀" * 100_000, "x" * 100_000))
    assert len(data) < 2 * 65_536
    assert data.endswith(b"x" * 1_000 + b"t\x00\x03a.Bp")
    assert MAX_TEXT - 100 < data.count(b"x") <= MAX_TEXT + 100
