"""The words of a history of the simulated cluster: parses histories, and generates random ones.

```
job.1 start.2 step step.7~9!lost@4 ckpt restore.3~30 resume deliver step
```

A word is an action and a number that selects among the possible targets or variants. `~9` stops the process before its
tenth call, and `~t1` before its second call to the sink's table, so that the following words happen in between.
`resume` lets it continue. `!lost@4` is the fault of its fourth call (`simulated_processes.FAULTS`). Faults end after
the last word.

The bits of `job`'s number decide how the history is played. With 1, small changes are inlined in manifests. With 2,
stopped processes continue before the last start. With 4, workers change subtasks often. With 8, retention runs before
the last zombies.
"""

import random
import re
from typing import NamedTuple

from state_engine.testing.simulated_processes import FAULTS

WEIGHTS = {
    "step": 20, "crash": 6, "ckpt": 8, "idle": 2, "start": 8, "restore": 8, "resume": 6, "kill": 2, "deliver": 4,
    "savepoint": 5, "dispose": 1, "retain": 6, "compact": 3, "tick": 3, "skew": 1, "append": 1, "optimize": 1,
    "alter": 1, "backup": 2, "putback": 2, "wipe": 1,
}  # fmt: skip
"""Relative frequency of each action."""

FAVOURS = (0, 0, 1, 1, 4)
"""Factors for these frequencies; each history draws one per action."""

STOPS = 0.25
"""Probability that an action stops its process before its end, between two calls."""

PUT_BACK = 0.2
"""Probability of a history in which epochs are sealed twice, before and after a backup is put back."""

_WORD = re.compile(r"([a-z]+)(?:\.(\d+))?(?:~(t?)(\d+))?((?:![a-z]+@\d+)*)")


class Action(NamedTuple):
    """One word of a history."""

    verb: str
    number: int = 0
    calls: int | None = None
    faults: tuple[tuple[int, str], ...] = ()
    of_table: bool = False

    @property
    def counted(self) -> str:
        """Prefix of the calls that are counted, for `Processes.run`."""
        return "table" if self.of_table else ""

    def __str__(self) -> str:
        number = f".{self.number}" if self.number else ""
        calls = f"~{'t' * self.of_table}{self.calls}" if self.calls is not None else ""
        return self.verb + number + calls + "".join(f"!{kind}@{call}" for call, kind in self.faults)


def parse(line: str) -> list[Action]:
    """Reads a history.

    Raises:
        ValueError: A word is not valid.
    """
    actions = []
    for word in line.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is not a word of a history.")
        verb, number, of_table, calls, faults = match.groups()
        pairs = (one.partition("@") for one in faults.split("!")[1:])
        marks = tuple((int(call), kind) for kind, _, call in pairs)
        stop = None if calls is None else int(calls)
        actions.append(Action(verb, int(number or 0), stop, marks, of_table=bool(of_table)))
    return actions


def text_of(actions: list[Action]) -> str:
    """Writes a history as `parse` reads it."""
    return " ".join(map(str, actions))


def random_history(seed: int) -> list[Action]:
    """Generates a random history; the same one for the same seed.

    Each history prefers some actions and omits others, so that unlikely combinations occur often enough.
    """
    choice = random.Random(seed)
    first = [Action("job", choice.randrange(12)), Action("start", choice.randrange(9))]
    if choice.random() < PUT_BACK:
        return first + _put_back(choice)
    factors = [n if verb == "step" else n * choice.choice(FAVOURS) for verb, n in WEIGHTS.items()]
    verbs = choice.choices(list(WEIGHTS), factors, k=choice.randint(4, 16))
    return first + [_drawn(choice, verb) for verb in verbs]


def _put_back(choice: random.Random) -> list[Action]:
    """Draws epochs, a backup, epochs that are lost with it, and new epochs with their numbers; faults are rare."""
    before, lost, after = (["step"] * choice.randint(least, 6) for least in (0, 1, 1))
    verbs = [*before, "backup", *lost, "putback", *after]
    return [_drawn(choice, verb) if verb == "putback" or choice.random() < 0.1 else Action(verb) for verb in verbs]


def _drawn(choice: random.Random, verb: str) -> Action:
    stops, of_table = choice.random() < STOPS, choice.random() < 0.5
    calls = choice.randint(0, choice.choice(_calls(verb, of_table))) if stops else None
    faults: dict[int, str] = {}
    while choice.random() < 0.2:
        faults[choice.randint(1, choice.choice((6, 20, 50)))] = choice.choice(FAULTS)
    return Action(verb, choice.randrange(100), calls, tuple(sorted(faults.items())), stops and of_table)


def _calls(verb: str, of_table: bool) -> tuple[int, ...]:
    """Returns rough numbers of calls that an action makes; a stop is drawn below one of them."""
    if not of_table:
        return 8, 25, 60
    return (12,) if verb in ("start", "restore") else (2, 12)


__all__ = ["WEIGHTS", "Action", "parse", "random_history", "text_of"]
