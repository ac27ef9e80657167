"""Draws numbers as strips of characters: a line over time, heat over key groups. Heights also work without colour."""

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

_BLOCKS = "▁▂▃▄▅▆▇█"
_COLOURS = ("grey37", "blue", "dodger_blue2", "cyan", "green", "yellow", "dark_orange", "red")


def spark_line(values: Sequence[float], width: int) -> str:
    """Returns one character for each of the last `width` values, relative to the largest of them; zero is a dot."""
    shown = values[-width:]
    most = max(shown, default=0)
    return "".join(_BLOCKS[_level(value, most)] if value > 0 else "·" for value in shown)


def heat_strip(values: Sequence[float], width: int) -> Text:
    """Returns a strip of at most `width` cells; with more values than cells, a cell shows the largest of its values.

    Zero is a dot; all other values are relative to the largest one.
    """
    cells = min(width, len(values))
    edges = [cell * len(values) // cells for cell in range(cells + 1)] if cells else []
    shown = [max(values[first:last]) for first, last in pairwise(edges)]
    most = max(shown, default=0)
    strip = Text()
    for value in shown:
        if value > 0:
            strip.append(_BLOCKS[_level(value, most)], _COLOURS[_level(value, most)])
        else:
            strip.append("·", "grey37")
    return strip


def _level(value: float, most: float) -> int:
    return min(len(_BLOCKS) - 1, int(value / most * len(_BLOCKS)))


__all__ = ["heat_strip", "spark_line"]
