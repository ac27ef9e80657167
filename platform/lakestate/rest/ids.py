"""Ids as in Flink: 32 hexadecimal digits. They are only looked up, never used in a file path."""

import re

import xxhash

_ID = re.compile(r"[0-9a-f]{32}")


def job_id(name: str) -> str:
    """Returns the Flink job id of a job: it depends on the name only, so it is the same for every start."""
    return xxhash.xxh3_128_hexdigest(name.encode())


def vertex_id(uid: str) -> str:
    """Returns the Flink vertex id of an operator."""
    return xxhash.xxh3_128_hexdigest(f"vertex/{uid}".encode())


def is_id(text: str) -> bool:
    """Returns whether a text has the form of an id."""
    return _ID.fullmatch(text) is not None


__all__ = ["is_id", "job_id", "vertex_id"]
