"""Blocks that are not run, each with its reason. A reason is a sentence about the block, not about the harness."""

EXCUSED: dict[tuple[str, str], str] = {}
"""By page and first line of the block."""
