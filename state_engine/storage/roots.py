"""Which addresses are folders of this machine, and which are the same place."""

import os
from urllib.parse import unquote, urlsplit


def local_path(url: str) -> str | None:
    """Returns the absolute path of a local folder's path or `file:` URL, None for other URLs."""
    if url.startswith("file:"):
        return os.path.abspath(unquote(urlsplit(url).path))
    return None if "://" in url else os.path.abspath(url)


def comparable(url: str) -> str:
    """Returns an address that is the same for the spellings of one place, to compare and not to open."""
    path = local_path(url)
    if path is not None:
        return os.path.realpath(path)
    scheme, separator, rest = url.rstrip("/").partition("://")
    return ("s3" if scheme in ("s3a", "s3n") else scheme) + separator + rest


__all__ = ["comparable", "local_path"]
