"""Schedules with a bounded number of preemptions, without those that differ only in the order of what commutes.

As in CHESS (Musuvathi et al., 2008): most errors of concurrent programs need few preemptions, wherever these fall. A
preemption in front of a storage call that commutes with all that runs meanwhile gives the run that one behind it gives.
"""

import random
from collections.abc import Callable, Sequence

from state_engine.testing.interleaving import Call, Interleaving, Schedule, commute

Play = Callable[[Schedule], Interleaving]
WHOLE = 1_000_000


def preempted_once(play: Play, outer: str, meanwhile: Sequence[str], first: Sequence[str] = ()) -> int:
    """`outer` stops in front of each of its storage calls until `meanwhile` have ended.

    Args:
        play: Runs a schedule.
        outer: Who is preempted.
        meanwhile: Who runs then, one after the other.
        first: Who runs in front of all.

    Returns:
        How many schedules were run.
    """
    before = tuple((name, WHOLE) for name in first)
    alone = play(Schedule(before, (outer, *meanwhile))).calls(outer)
    runs, done = 1, 0
    while done <= len(alone):
        played = play(Schedule((*before, (outer, done + 1)), (*meanwhile, outer)))
        done, runs = _following(alone, done, _between(played, outer, done)), runs + 1
    return runs


def at_random(names: Sequence[str], seed: int, *, kills: int = 0) -> Schedule:
    """Long and short runs of all processes, in any order, some of which die on the way."""
    choice = random.Random(seed)
    segments = tuple((choice.choice(names), choice.choice((1, 2, 5, 12, 40))) for _ in range(choice.randrange(4, 120)))
    order = choice.sample(list(names), len(names))
    dying = tuple((name, choice.randrange(1, 60)) for name in choice.sample(list(names), kills))
    return Schedule(segments, tuple(order), dying)


def _between(played: Interleaving, name: str, done: int) -> list[Call]:
    """What others called between a process's first `done` calls and its next one."""
    places = [place for place, call in enumerate(played.trace) if call.process == name]
    first = places[done - 1] + 1 if done else 0
    last = places[done] if done < len(places) else len(played.trace)
    return [call for call in played.trace[first:last] if call.process != name]


def _following(alone: Sequence[Call], done: int, between: Sequence[Call]) -> int:
    """The next place at which a preemption makes a difference."""
    done += 1
    while done <= len(alone) and all(commute(alone[done - 1], call) for call in between):
        done += 1
    return done


__all__ = ["at_random", "preempted_once"]
