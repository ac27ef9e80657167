"""Finds of earlier runs, as a failure prints them: they are played first, and in every run."""

from decimal import Decimal
from math import nan
from typing import Any

from forms.declared import Item, Kept
from forms.declared_runs import Case as OfDeclared
from forms.plain import Record, Stretch
from forms.program import Program, StateOf, Step
from forms.running import Case
from forms.ways import Turn, Way
from forms.window_runs import Case as OfWindows
from forms.window_runs import Stretch as Moved
from forms.windows import Definition, Event, Windowed

TIMER = (Step("set event timer"), Step("clear"), Step("get"))
VALUES = ((None, None),)

PROGRAMS: list[tuple[Any, Way]] = [
    (  # the clock moves in an epoch of its own, before the watermark does
        Case(
            Program(("int",), (StateOf("reduced", "bigint", ttl="event"),), ((Step("get"),), TIMER), (Step("get"),)),
            (
                Stretch(0, 1, (Record((1,), 1, VALUES, 0, 104),)),
                Stretch(2, 4, (Record((1,), 0, VALUES, 0, 125),)),
            ),
        ),
        Way((Turn("batch, timer by timer", "heap", 3),), "warm", 3),
    ),
]
WINDOWS: list[tuple[Any, Way]] = [
    (  # a record comes in the last millisecond of its window by processing time
        OfWindows(
            Windowed(("decimal(38,0)",), "float", True, None, (Definition("sliding", 3, 3, 2),)),
            (Moved(1, ()), Moved(5, (Event((Decimal(10**38 - 1),), nan, 108),))),
        ),
        Way((Turn("apply", "heap", 3),), "warm", 1),
    ),
]
DECLARED: list[tuple[Any, Way]] = [
    (  # NaN is larger than every number, null less
        OfDeclared(
            Kept(("string",), "double", "bigint", "top_n", 2),
            (Item(("",), nan, 1), Item(("",), None, 2), Item(("",), 1.5, None), Item(("",), nan, 4)),
        ),
        Way((Turn("declared", "rocksdb", 2),), "restored", 1),
    ),
]

__all__ = ["DECLARED", "PROGRAMS", "WINDOWS"]
