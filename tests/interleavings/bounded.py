"""Schedules with a bounded number of preemptions, without those that differ only in the order of what commutes.

As in CHESS (Musuvathi et al., 2008): most errors of concurrent programs need few preemptions, wherever these fall. A
preemption before a storage call that commutes with all that runs meanwhile gives the same run as one after this call.

Calls that were recorded in one run decide which other schedules are left out. If a root or an id differed from run to
run, no two calls would conflict, and all schedules would be left out. So each run must make the recorded calls again.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from state_engine.testing.interleaving import Call, Interleaving, Schedule, Segments, commute, owner

Play = Callable[[Schedule], Interleaving]
WHOLE = 1_000_000


class Ran(NamedTuple):
    """The number of schedules that were run, and of the places at which a process could stop.

    If two processes stop, a place is a pair of calls, one of each process.
    """

    schedules: int
    places: int


class Pair(NamedTuple):
    """The process that stops first, the one that stops second, and those that run to the end while both are stopped.

    Then `outer` goes on, and `inner` after it; with `back`, `inner` goes on first.
    """

    outer: str
    inner: str
    meanwhile: Sequence[str] = ()
    back: bool = False

    @property
    def names(self) -> list[str]:
        return [self.outer, self.inner, *self.meanwhile]

    def schedule(self, before: Segments) -> Schedule:
        """Returns the schedule in which both have stopped after the segments `before`."""
        order = (self.inner, self.outer) if self.back else (self.outer, self.inner)
        return Schedule(before, whole(*self.meanwhile, *order))


def whole(*processes: str) -> tuple[str, ...]:
    """Returns the names that schedule processes with all their threads."""
    return tuple(f"{name}/*" for name in processes)


def preempted_once(
    play: Play,
    outer: str,
    meanwhile: Sequence[str],
    first: Sequence[str] = (),
    *,
    size: int | None = None,
    seed: int = 0,
) -> Ran:
    """`outer` stops before each of its storage calls until `meanwhile` have ended.

    Args:
        play: Runs a schedule.
        outer: The process that is preempted.
        meanwhile: The processes that run then, one after the other.
        first: The processes that run before all others.
        size: How many of the schedules, spread over the calls that conflict with those of `meanwhile`; all by default.
        seed: Selects these schedules.
    """
    before = tuple((name, WHOLE) for name in first)
    one = _recorded(play, Schedule(before, (outer, *meanwhile)), size)
    alone, begin, same_process = one.calls(outer), _begin(one, outer), _tells(outer, meanwhile)

    def at(done: int) -> int:
        played = play(Schedule((*before, (outer, done + 1)), (*meanwhile, outer)))
        _meets(played, begin, alone[:done])
        return _following(alone, done, () if same_process else _gap(played, outer, begin + done))

    others = [call for name in meanwhile for call in one.calls(name)]
    return Ran(1 + _each(at, alone, others, size, seed), len(alone) + 1)


def preempted_twice(play: Play, pair: Pair, *, size: int | None = None, seed: int = 0) -> Ran:
    """One process stops before each of its calls, and at each of these stops another one before each of its own.

    Args:
        play: Runs a schedule.
        pair: The processes.
        size: How many of the schedules if there are more, spread over the calls of either process that conflict with
            one of another process; all by default.
        seed: Selects these schedules.
    """
    one = _recorded(play, Schedule(rest=whole(*pair.names)), size)
    alone, nested = _gap(one, pair.inner, 0), _of(one, pair.inner)
    rest = [call for name in pair.meanwhile for call in _of(one, name)]
    outer, inner = _that_matter(alone, [*nested, *rest]), _that_matter(nested, [*alone, *rest])
    if size is None or len(outer) * len(inner) <= size:
        return _every_pair(play, pair, one)
    choice, both = random.Random(seed), 0
    reached = spread(inner, size, choice)
    choice.shuffle(reached)
    for stops in zip(spread(outer, size, choice), reached, strict=True):
        before = one.until(stops[0])
        steps = _steps(one.until(len(alone) + stops[1])) - _steps(one.until(len(alone)))
        played = play(pair.schedule((*before, (f"{pair.inner}/*", steps + 1))))
        _meets(played, 0, alone[: stops[0]])
        both += owner(played.trace[-1].process) != pair.outer or pair.back
    assert 2 * both > size, f"{pair.inner} stopped in {both} of {size} schedules only"
    return Ran(1 + size, len(outer) * len(inner))


def _every_pair(play: Play, pair: Pair, one: Interleaving) -> Ran:
    outer, inner = pair.outer, pair.inner
    alone = _gap(one, inner, 0)
    runs, places, done = 1, 1, 0
    while done < len(alone) + bool(pair.meanwhile):  # the others run within `inner`, also when `outer` has ended
        through = play(Schedule(one.until(done), whole(inner, *pair.meanwhile, outer)))
        _meets(through, 0, alone[:done])
        nested, reached, between = _of(through, inner), 0, _gap(through, outer, done)
        runs, places = runs + 1, places + len(nested) + 1
        while reached < len(nested):
            played = play(pair.schedule(through.until(done + reached)))
            _meets(played, 0, [*alone[:done], *nested[:reached]])
            between += _gap(played, outer, done)
            reached, runs = _following(nested, reached, _gap(played, inner, done + reached)), runs + 1
        done = _following(alone, done, between)
    return Ran(runs, places)


def one_among_all(
    play: Play, one: str, others: Sequence[str], mix: Segments, *, size: int | None = None, seed: int = 0
) -> Ran:
    """`one` runs from beginning to end before each call of others that run together.

    Args:
        play: Runs a schedule.
        one: A process.
        others: All others.
        mix: In which order these run together.
        size: How many of the schedules, spread over the calls that conflict with those of `one`; all by default.
        seed: Selects these schedules.
    """
    together = _recorded(play, Schedule(mix, whole(*others, one)), size)
    own_calls = _of(together, one)
    calls = _gap(together, one, 0)

    def at(place: int) -> int:
        now = (*together.until(place), (f"{one}/*", WHOLE), *together.since(place))
        played = play(Schedule(now, whole(*others, one)))
        _meets(played, 0, calls[:place])
        return _following(calls, place, _run_of(played, one, place))

    return Ran(1 + _each(at, calls, own_calls, size, seed), len(calls) + 1)


def _each(at: Callable[[int], int], calls: Sequence[Call], others: Sequence[Call], size: int | None, seed: int) -> int:
    """Tries the places that make a difference, or `size` of them; `at` tries one and returns the next."""
    if size is not None:
        chosen = set(spread(_that_matter(calls, others), size, random.Random(seed)))
        for place in sorted(chosen):
            at(place)
        return len(chosen)
    runs = place = 0
    while place < len(calls):
        place, runs = at(place), runs + 1
    return runs


def spread(places: Sequence[int], size: int, choice: random.Random) -> list[int]:
    """Picks `size` places, one from each part of equal length; some several times if there are fewer than `size`."""
    return [places[int((part + choice.random()) * len(places) / size)] for part in range(size)]


def at_random(names: Sequence[str], seed: int, *, kills: int = 0) -> Schedule:
    """Returns a random schedule: long and short runs of all processes, in any order; `kills` of them die on the way."""
    choice = random.Random(seed)
    segments = tuple((choice.choice(names), choice.choice((1, 2, 5, 12, 40))) for _ in range(choice.randrange(4, 120)))
    order = choice.sample(list(names), len(names))
    dying = tuple((name, choice.randrange(1, 60)) for name in choice.sample(list(names), kills))
    return Schedule(segments, tuple(order), dying)


def _recorded(play: Play, schedule: Schedule, size: int | None) -> Interleaving:
    """Plays a schedule and returns its calls, to compare others with; plays it twice if its calls exclude places."""
    played = play(schedule)
    if size is None:
        _meets(play(schedule), 0, played.trace)
    return played


def _begin(played: Interleaving, name: str) -> int:
    """Returns the index in the trace of the first call of a thread."""
    places = [place for place, call in enumerate(played.trace) if call.process == name]
    assert places, f"{name} made no call"
    return places[0]


def _meets(played: Interleaving, begin: int, calls: Sequence[Call]) -> None:
    """Asserts that a run made the calls for which it was chosen, and no other call in between."""
    made = [*played.trace[begin : begin + len(calls)], None]
    for call, other in zip(calls, made, strict=False):
        assert call == other, f"{call} was recorded, {other} made: does a root or an id differ from run to run?"


def _of(played: Interleaving, process: str) -> list[Call]:
    """Returns the calls of a process, of all its threads."""
    return [call for call in played.trace if owner(call.process) == process]


def _gap(played: Interleaving, name: str, begin: int) -> list[Call]:
    """Returns the calls of others from a place in the trace to the next call of a process, or of one thread."""
    calls = played.trace[begin:]
    mine = (place for place, call in enumerate(calls) if name in (call.process, owner(call.process)))
    return calls[: next(mine, len(calls))]


def _run_of(played: Interleaving, process: str, begin: int) -> list[Call]:
    """Returns the calls of a process from a place in the trace to the next call of others."""
    calls = played.trace[begin:]
    others = (place for place, call in enumerate(calls) if owner(call.process) != process)
    return calls[: next(others, len(calls))]


def _steps(segments: Segments) -> int:
    return sum(steps for _, steps in segments)


def _tells(name: str, others: Sequence[str]) -> bool:
    """Whether `others` have another thread of the process: threads may wait for each other without a storage call."""
    return any(owner(other) == owner(name) for other in others)


def _following(alone: Sequence[Call], done: int, between: Sequence[Call]) -> int:
    """Returns the next place at which a preemption makes a difference, judged by the calls of others."""
    done += 1
    while between and done < len(alone) and all(commute(alone[done - 1], call) for call in between):
        done += 1
    return done


def _that_matter(calls: Sequence[Call], others: Sequence[Call]) -> list[int]:
    """Returns the first place, and that after each call that conflicts with one of `others`; all if these made none."""
    if not others:
        return list(range(len(calls)))
    after = (place for place in range(1, len(calls)) if not all(commute(calls[place - 1], call) for call in others))
    return [0, *after]


__all__ = [
    "WHOLE",
    "Pair",
    "Play",
    "Ran",
    "at_random",
    "one_among_all",
    "preempted_once",
    "preempted_twice",
    "spread",
    "whole",
]
