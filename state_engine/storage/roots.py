"""Addresses of state roots, tables and savepoints: finds those that are local folders, and those of the same place."""

import os
import re
from urllib.parse import unquote, urlsplit

from state_engine.errors import UnsupportedAddressError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?!//)")
_UNEXPANDED = re.compile(r"~|\$")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_UNREADABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]|^]")
"""Characters in a path that delta-rs replaces (so that it is another folder's name), or cannot open."""


def address(url: str | os.PathLike[str]) -> str:
    """Returns an address in the form to store: on a local disk the absolute path, for another store the URL as given.

    Args:
        url: A folder's path, absolute or relative to the working directory; a `file:` URL; or another store's URL.

    Raises:
        UnsupportedAddressError: An unintended folder would be made, as in `local_path`.
    """
    return local_path(url) or os.fspath(url)


def local_path(url: str | os.PathLike[str]) -> str | None:
    """Returns the absolute path of a local folder's path or `file:` URL, None for other URLs.

    Raises:
        UnsupportedAddressError: It is empty; or an incomplete URL (`s3:/bucket`, `dbfs:/x`, `file://tmp/x`); or begins
            with what a shell would have replaced (`~`, `$HOME`); or it is a folder with a name that delta-rs cannot
            open: with a control character, `%41`, a backslash, or one of `[ ] | ^`.
    """
    text = os.fspath(url) if isinstance(url, os.PathLike) else url
    if (why := _refused(text)) is not None:
        raise UnsupportedAddressError(
            f"The address {text!r} {why}.",
            action="Use an absolute path, or a URL such as file:///data/state, s3://bucket/prefix, gs:// or abfss://. "
            "A folder in the working directory with such a name is written ./name.",
        )
    if "://" in text and not text.startswith("file:"):
        return None
    path = os.path.abspath(unquote(urlsplit(text).path) if text.startswith("file:") else text)
    if (match := _UNREADABLE.search(path)) is not None:
        raise UnsupportedAddressError(
            f"The folder {path!r} has {match[0]!r} in its name, with which delta-rs opens another folder or none.",
            action="Give the folder another name.",
        )
    return path


def _refused(text: object) -> str | None:
    if not isinstance(text, str):
        return f"is neither a text nor a path, but {type(text).__name__}"
    if not text.strip():
        return "is empty"
    if _CONTROL.search(text):
        return "holds a control character"
    if _UNEXPANDED.match(text):
        return "begins with ~ or $, which only a shell replaces"
    if text.startswith("file:"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            return f"names the host {parts.netloc!r}, not a folder: a file: URL of a folder has three slashes"
        return None if parts.path.startswith("/") else "is a file: URL of a relative path"
    if (match := _SCHEME.match(text)) is not None:
        return f"looks like a URL of {match[1]}:, but has no //, so it would be a folder of the working directory"
    return None


def comparable(url: str) -> str:
    """Returns one address for all spellings of a place; use it to compare, not to open."""
    path = local_path(url)
    if path is not None:
        return os.path.realpath(path)
    scheme, separator, rest = url.rstrip("/").partition("://")
    scheme = scheme.lower()
    return ("s3" if scheme in ("s3a", "s3n") else scheme) + separator + rest


__all__ = ["address", "comparable", "local_path"]
