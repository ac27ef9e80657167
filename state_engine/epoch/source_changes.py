"""Checks whether a job may go on from a position with the sources that it declares now. Pure.

This module decides what must not change at all, what a start has to allow, and what may change freely. The options of
each format are in `source_options.py`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from state_engine.epoch.source_options import (
    FILES,
    OptionClass,
    format_name,
    format_of,
    recorded,
    shown,
    spelled,
)
from state_engine.epoch.source_paths import place, same_place, why_not_followed
from state_engine.errors import SourcePositionLostError, SourcesChangedError
from state_engine.log.records import Manifest
from state_engine.log.source_records import SourceFingerprint

_SUBSCRIPTIONS = ("assign", "subscribe", "subscribepattern")
_NOT_SET = "not set"

WITHOUT_LOST_RECORDS = "To go on without what is gone, set failOnDataLoss=false on the source."
"""What to do about records that a source no longer has."""


class SourceChange(NamedTuple):
    """One difference of one source. `never` is the reason why no start may allow it; empty if a start may."""

    source: int
    what: str
    never: str = ""

    def __str__(self) -> str:
        rule = f"never, since {self.never}" if self.never else OptionClass.ASK.value
        return f"source {self.source}: {self.what} ({rule})"


def changes(before: Sequence[SourceFingerprint], now: Sequence[SourceFingerprint]) -> list[SourceChange]:
    """Returns the differences that are not free to change; the number of sources must be the same."""
    differences = []
    for number, (old, new) in enumerate(zip(before, now, strict=True)):
        moved = _exchanged(number, before, now)
        differences += [SourceChange(number, what, never or moved) for what, never in _differences(old, new)]
    return differences


def check_changes(
    before: Sequence[SourceFingerprint], now: Sequence[SourceFingerprint], epoch: int, allowed: Collection[int] = ()
) -> None:
    """Refuses sources that are not those of a position.

    Args:
        before: As they are recorded with the position.
        now: As the job declares them.
        epoch: The epoch of the position.
        allowed: Numbers of the sources that may have changed.

    Raises:
        SourcesChangedError: It says what of which source differs, whether a start may allow it, and how.
    """
    if wrong := sorted(set(allowed) - set(range(len(now)))):
        raise SourcesChangedError(
            f"There is no source {wrong[0]}; the job has {len(now)}, counted from 0.",
            action="Give the numbers that the refusal of the start names.",
        )
    if len(before) != len(now):
        raise SourcesChangedError(
            f"The sources differ from those of epoch {epoch}: there were {len(before)} and are {len(now)}.",
            action="Restore the sources as they were, or start under another job name.",
        )
    refused = [one for one in changes(before, now) if one.never or one.source not in allowed]
    if not refused:
        return
    numbers = sorted({one.source for one in refused} | set(allowed))
    allow = " ".join(f"--allow-changed-sources {number}" for number in numbers)
    raise SourcesChangedError(
        f"The sources differ from those of epoch {epoch}: " + "; ".join(map(str, refused)) + ".",
        action="Restore the sources as they were, or start under another job name."
        if any(one.never for one in refused)
        else "Restore the sources as they were. Or, if records that come from now on may differ from those before, "
        f"start once with allow_changed_sources={numbers} ({allow}).",
    )


def position_lost(source: int, what: str, action: str) -> SourcePositionLostError:
    """Returns the error of a source that no longer has what its position needs.

    Args:
        source: Its number.
        what: What is lost.
        action: What to do.
    """
    return SourcePositionLostError(
        f"Source {source}: {what}.", action=f"{action} Or begin a job with another name, whose state begins empty."
    )


def accepted(target: Manifest, now: Sequence[SourceFingerprint]) -> list[SourceChange]:
    """Returns the differences to the epoch from which a start went on, except those that are free to change.

    A start that finished the restore of another start went on from an epoch that may have had other sources.
    """
    return changes(target.fingerprints, now) if target.sources and len(target.fingerprints) == len(now) else []


def carried(before: Sequence[SourceFingerprint], now: Sequence[SourceFingerprint]) -> tuple[SourceFingerprint, ...]:
    """Returns the sources to record from now on. They keep the former paths of files that were read there."""
    if len(before) != len(now):
        return tuple(now)
    return tuple(
        replace(new, former=_former(old, new)) if is_file_format(new) else new
        for old, new in zip(before, now, strict=True)
    )


def is_file_format(source: SourceFingerprint) -> bool:
    """Returns whether Spark keeps a log of the files that the source has read."""
    return format_of(source.kind) is FILES


def is_moved(old: SourceFingerprint, new: SourceFingerprint) -> bool:
    """Returns whether a source reads at another place than before."""
    return not same_place(old.path, new.path)


def _former(old: SourceFingerprint, new: SourceFingerprint) -> tuple[str, ...]:
    return tuple(path for path in dict.fromkeys((*old.former, *new.former, old.path)) if path != new.path)


def _differences(old: SourceFingerprint, new: SourceFingerprint) -> Iterator[tuple[str, str]]:
    """Yields what differs between two sources, and why it must not."""
    if format_name(old.kind) != format_name(new.kind):
        yield f"kind was {old.kind}, is {new.kind}", "a position of one format has no meaning in another"
        return
    if is_moved(old, new):
        why = why_not_followed(old.path, new.path, old.former) if is_file_format(new) else None
        yield f"path was {shown('path', old.path) or _NOT_SET}, is {shown('path', new.path) or _NOT_SET}", why or ""
    options_before, options_now = recorded(old.kind, old.options), recorded(new.kind, new.options)
    unknown = {name.lower() for name in format_of(old.kind).defaults} - {name.lower() for name in old.options}
    for name in sorted((options_before.keys() | options_now.keys()) - unknown):
        a, b = options_before.get(name), options_now.get(name)
        if _in_order(name, a) != _in_order(name, b):
            texts = [shown(name, value) if value else _NOT_SET for value in (a, b)]
            yield f"option {spelled(new.kind, name)} was {texts[0]}, is {texts[1]}", ""


def _in_order(option: str, value: str | None) -> object:
    """Returns the value of an option for a comparison: topics are a set, so their order does not matter."""
    return sorted(topic.strip() for topic in value.split(",")) if option == "subscribe" and value else value


def _exchanged(number: int, before: Sequence[SourceFingerprint], now: Sequence[SourceFingerprint]) -> str:
    """Returns why a source is taken for another one than that of its position; empty if it is not."""
    identity = _identity(now[number])
    if identity == _identity(before[number]):
        return ""
    others = [other for other, one in enumerate(before) if other != number and _identity(one) == identity]
    return f"it reads what source {others[0]} read: the order of sources has changed" if others else ""


def _identity(source: SourceFingerprint) -> tuple[object, ...]:
    topics = tuple(str(_in_order(name, source.options.get(name))) for name in _SUBSCRIPTIONS)
    return format_name(source.kind), place(source.path), topics


__all__ = [
    "WITHOUT_LOST_RECORDS",
    "SourceChange",
    "accepted",
    "carried",
    "changes",
    "check_changes",
    "is_file_format",
    "is_moved",
    "position_lost",
]
