"""Draws the rows of the key groups as a picture: a PNG inside Markdown, which Dagster shows in place.

Dagster shows Markdown of fewer than 1,000 characters directly and hides longer texts until a click, and an event is
never deleted. So the picture has three colours, few pixels, and no text.
"""

import base64
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BARS = 128
"""Maximum number of bars; with more key groups, a bar shows the largest of several adjacent ones."""

_BAR_WIDTH, _HEIGHT = 4, 48
_PALETTE = bytes([0, 0, 0, 79, 67, 221, 214, 76, 52])  # nothing, blurple, red
_TRANSPARENT = bytes([0])
_BAR, _LARGEST = 0b01010100, 0b10101000  # three pixels of two bits, and a gap


def key_group_image(rows: Sequence[float]) -> str:
    """Returns the rows of all key groups as bars from left to right, the largest in red; empty without rows."""
    if not any(rows):
        return ""
    image = base64.b64encode(_png(_bars(rows))).decode()
    return f"![rows per key group](data:image/png;base64,{image})"


def _bars(rows: Sequence[float]) -> NDArray[np.float64]:
    bars = min(BARS, len(rows))
    edges = [bar * len(rows) // bars for bar in range(bars + 1)]
    return np.array([max(rows[first:last]) for first, last in pairwise(edges)])


def _png(bars: NDArray[np.float64]) -> bytes:
    """Returns an image of two bits per pixel: one byte has the four pixels of a bar."""
    heights = np.ceil(bars / bars.max() * _HEIGHT)
    colours = np.where(bars == bars.max(), _LARGEST, _BAR)
    lines = np.arange(_HEIGHT, 0, -1)[:, None]
    pixels = np.where(heights >= lines, colours, 0).astype(np.uint8)
    before = np.vstack([np.zeros((1, len(bars)), np.uint8), pixels[:-1]])
    filtered = np.hstack([np.full((_HEIGHT, 1), 2, np.uint8), pixels - before])  # each line minus the line above it
    header = struct.pack(">IIBBBBB", len(bars) * _BAR_WIDTH, _HEIGHT, 2, 3, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", _PALETTE),
            _chunk(b"tRNS", _TRANSPARENT),
            _chunk(b"IDAT", zlib.compress(filtered.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


__all__ = ["BARS", "key_group_image"]
