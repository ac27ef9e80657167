"""Compares the places where a source reads, and finds its files after their folder has moved. Pure.

Links are not followed: Spark's log of files has the paths of files below the folder as the job spelled it.
"""

import posixpath
import re
from collections.abc import Iterable
from urllib.parse import quote

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
_GLOB = re.compile(r"[*?\[{\\]")
_KEPT = "_-!.~'()*,;:$&+=@/"  # not escaped by Java's URI, which Spark uses to write its log of files


def place(path: str) -> str:
    """Returns one path for all spellings of a place; use it to compare, not to open."""
    store, folder = _parts(path)
    scheme, separator, authority = store.partition("://")
    return _SAME_STORE.get(scheme, scheme) + separator + authority + folder


def same_place(recorded: str, now: str) -> bool:
    """Returns whether two paths name one place. A relative path, of an earlier release, may be below any folder."""
    before, after = place(recorded), place(now)
    return before == after or (is_relative(before) and after.endswith(f"/{before}"))


def is_relative(path: str) -> bool:
    """Returns whether a path depends on the folder in which Spark was started."""
    return bool(path) and not path.startswith(("/", "file:")) and "://" not in path


def why_not_followed(was: str, now: str, former: Iterable[str] = ()) -> str | None:
    """Returns why the files below `was`, and below `former` places before it, cannot be found again below `now`.

    A copy on an object store has another time, by which Spark may take an old file for a new one.
    """
    (store, _), (old, old_pattern), (new, new_pattern) = _parts(now), _base(was), _base(now)
    if is_relative(was):
        return "it was recorded as a relative path, below an unknown folder"
    if (old, _parts(was)[0]) == (new, store):
        return None  # only the pattern differs
    if old_pattern != new_pattern:
        return f"what it matches below the folder has changed as well ({old_pattern or 'all'}, {new_pattern or 'all'})"
    if store or _parts(was)[0]:
        return "on an object store a moved file has a new time, so that Spark takes it for a new file"
    for one in (old, *(_base(path)[0] for path in former)):
        if one != new and (_contains(one, new) or _contains(new, one)):
            return f"one of {one} and {new} is in the other"
    return None


def followed(file: str, former: Iterable[str], now: str) -> str:
    """Returns where a file of Spark's log is now, if its folder has moved; else the file itself.

    Args:
        file: Its URL, as in Spark's log of files.
        former: Where the source read before.
        now: Where it reads.
    """
    current = _url(now)
    for base in sorted({_url(path) for path in former} - {current}, key=len, reverse=True):
        if file.startswith(f"{base}/"):
            return current + file.removeprefix(base)
    return file


def _contains(folder: str, other: str) -> bool:
    return other.startswith(f"{folder.rstrip('/')}/")


def _parts(path: str) -> tuple[str, str]:
    """Returns the store (scheme and authority, empty on a local disk) and the normalised folder in it."""
    store, separator, rest = path.partition("://")
    if path.startswith("file:"):
        return "", _normal("/" + path.removeprefix("file:").lstrip("/"))
    if not separator:
        return "", _normal(path)
    authority, slash, folder = rest.partition("/")
    return f"{store}://{authority}", _normal(f"/{folder}").rstrip("/") if slash else ""


def _normal(path: str) -> str:
    return re.sub("^//+", "/", posixpath.normpath(path)) if path else ""


def _base(path: str) -> tuple[str, str]:
    """Splits a folder before its first component that is a pattern."""
    parts = _parts(path)[1].split("/")
    first = next((number for number, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


def _url(path: str) -> str:
    """Returns the prefix that the URLs of files in a folder have."""
    folder = _base(path)[0].rstrip("/")
    kept = "".join(c if ord(c) > 127 and not c.isspace() else quote(c, safe=_KEPT) for c in folder)
    return (_parts(path)[0] or "file://") + kept


__all__ = ["followed", "is_relative", "place", "same_place", "why_not_followed"]
