"""Decides which requests are allowed: addresses to bind, tokens, hosts and origins. Pure."""

import hmac
import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from state_engine.errors import LakestateError

TOKEN = "LAKESTATE_REST_TOKEN"
"""Environment variable: the token that requests must carry. Without it the server listens only to this machine."""
MIN_TOKEN = 16
"""Minimum length of a token in characters."""


class UnsafeAddressError(LakestateError):
    """The server would be open to anyone."""


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches an address. Names other than `localhost` are not looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_address(host: str, token: str | None) -> None:
    """Refuses to listen to other machines without a token.

    Raises:
        UnsafeAddressError: There is no token, or one that can be guessed.
    """
    if token is not None and len(token) < MIN_TOKEN:
        raise UnsafeAddressError(
            f"The token in {TOKEN} has {len(token)} characters.", action=f"Use a random one of at least {MIN_TOKEN}."
        )
    if token is None and not is_loopback(host):
        raise UnsafeAddressError(
            f"The REST server would listen on {host}, where anyone could stop the job.",
            action=f"Set {TOKEN} to a secret, or listen on 127.0.0.1.",
        )


class Guard:
    """Decides whether a request is answered.

    Args:
        host: Where the server listens.
        token: The token that requests must carry; null for none.
    """

    def __init__(self, host: str, token: str | None) -> None:
        check_address(host, token)
        self._token = token.encode() if token is not None else None

    def refuse(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Returns status and message of a refusal; null if the request may pass.

        Without a token, the request must address this machine by a loopback name. So a web page cannot reach the server
        under a name that it made point to this machine, and a page of another origin cannot change anything.
        """
        if self._token is not None:
            given = headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                return 401, "A bearer token is needed; the request has none, or a wrong one."
            return None
        host = headers.get("host", "")
        if not is_loopback(_name_of(f"//{host}")):
            return 403, "Without a token the server answers only to a loopback address or localhost."
        origin = headers.get("origin")
        if method != "GET" and origin is not None and urlsplit(origin).netloc != host:
            return 403, "Pages of another origin may not change anything."
        return None


def _name_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


__all__ = ["MIN_TOKEN", "TOKEN", "Guard", "UnsafeAddressError", "check_address", "is_loopback"]
