"""Which addresses are folders of this machine."""

import os
from urllib.parse import unquote, urlsplit


def local_path(url: str) -> str | None:
    """Returns the absolute path of a local folder's path or `file:` URL, None for other URLs."""
    if url.startswith("file:"):
        return os.path.abspath(unquote(urlsplit(url).path))
    return None if "://" in url else os.path.abspath(url)


__all__ = ["local_path"]
