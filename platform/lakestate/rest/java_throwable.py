"""Encodes failures as Flink's command line reads them: a Java-serialized `SerializedThrowable`.

Without one that it can read, the command line asks twenty times and gives up without a message. The bytes follow the
grammar of the Java Object Serialization Specification: class descriptors of `org.apache.flink.util.SerializedThrowable`
and its parents, `Exception` and `Throwable`, then three strings. They contain no nested exception.
"""

import base64

from state_engine.text import shorten

MAX_TEXT = 10_000
"""Maximum length of a text in characters: each takes up to 6 bytes, and Java's short strings end at 65,535 bytes."""

_STRING = b"t"
_HEAD = (
    b"\xac\xed\x00\x05"
    b"sr\x00)org.apache.flink.util.SerializedThrowable"
    b"e\x16\x9d\xf5\x1f\xa7\x13\xf3\x02\x00\x03"
    b"L\x00\x19fullStringifiedStackTracet\x00\x12Ljava/lang/String;"
    b"L\x00\x16originalErrorClassNameq\x00~\x00\x01"
    b"[\x00\x13serializedExceptiont\x00\x02[B"
    b"xr\x00\x13java.lang.Exception\xd0\xfd\x1f>\x1a;\x1c\xc4\x02\x00\x00"
    b"xr\x00\x13java.lang.Throwable\xd5\xc65'9w\xb8\xcb\x03\x00\x04"
    b"L\x00\x05causet\x00\x15Ljava/lang/Throwable;"
    b"L\x00\rdetailMessageq\x00~\x00\x01"
    b"[\x00\nstackTracet\x00\x1e[Ljava/lang/StackTraceElement;"
    b"L\x00\x14suppressedExceptionst\x00\x10Ljava/util/List;"
    b"xpp"
)
_NO_STACK = (
    b'ur\x00\x1e[Ljava.lang.StackTraceElement;\x02F*<<\xfd"9\x02\x00\x00xp\x00\x00\x00\x00'
    b"sr\x00\x1fjava.util.Collections$EmptyListz\xb8\x17\xb4<\xa7\x9e\xde\x02\x00\x00xpx"
)
_NULL = b"p"


def serialized_throwable(class_name: str, message: str, stack: str) -> str:
    """Returns a failure in base64.

    Args:
        class_name: Of the error, which need not be a class of Java.
        message: What happened; it is printed by the command line.
        stack: The trace as text.
    """
    parts = [_HEAD, _text(f"{class_name}: {message}"), _NO_STACK, _text(stack), _text(class_name), _NULL]
    return base64.b64encode(b"".join(parts)).decode()


def _text(text: str) -> bytes:
    encoded = modified_utf8(shorten(text, MAX_TEXT))
    return _STRING + len(encoded).to_bytes(2, "big") + encoded


def modified_utf8(text: str) -> bytes:
    """Encodes a text as Java does: NUL in two bytes, and a character beyond 16 bits as two surrogates."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return b"".join(chr(number).encode("utf-8", "surrogatepass") if number else b"\xc0\x80" for number in numbers)


__all__ = ["MAX_TEXT", "modified_utf8", "serialized_throwable"]
