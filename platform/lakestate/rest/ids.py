"""Ids as Flink has them: 32 hexadecimal digits. They are looked up, and never stand in a path."""

import re

import xxhash

_ID = re.compile(r"[0-9a-f]{32}")


def job_id(name: str) -> str:
    """Returns the Flink job id of a job: the same for each start of it, by its name."""
    return xxhash.xxh3_128_hexdigest(name.encode())


def vertex_id(uid: str) -> str:
    """Returns the Flink vertex id of an operator."""
    return xxhash.xxh3_128_hexdigest(f"vertex/{uid}".encode())


def is_id(text: str) -> bool:
    """Says whether this can be an id at all."""
    return _ID.fullmatch(text) is not None


__all__ = ["is_id", "job_id", "vertex_id"]
