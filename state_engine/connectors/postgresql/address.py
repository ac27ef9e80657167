"""The address of a database: libpq's URI, with what the environment adds, and never with a password."""

import os
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from state_engine.errors import JobDefinitionError

_SETTINGS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""So that a server that has vanished ends a connection within a minute or so. The URI may have others."""


class Address(NamedTuple):
    """A database.

    Attributes:
        uri: The URI as it was given.
        place: Host, port and database, as `db:5432/shop`; without the user, who may change.
    """

    uri: str
    place: str

    def connecting(self, application: str) -> str:
        """Returns the URI to connect with, under the name of an application."""
        parts = urlsplit(self.uri)
        options = {**_SETTINGS, **dict(parse_qsl(parts.query)), "application_name": application}
        return urlunsplit(parts._replace(query=urlencode(options, quote_via=quote)))


def parse(uri: str) -> Address:
    """Reads the URI of a database; what it lacks libpq takes from the environment (`PGHOST`, `PGDATABASE`, …).

    Raises:
        JobDefinitionError: It is no URI of PostgreSQL, or it has a password.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("postgresql", "postgres") or parts.fragment or not uri.partition(":")[2].startswith("//"):
        raise JobDefinitionError(
            "The address of a PostgresSink is no URI of PostgreSQL.",
            action="Write postgresql://user@host:5432/database, or postgresql:// to take all from the environment.",
        )
    options = dict(parse_qsl(parts.query))
    user, _, hosts = parts.netloc.rpartition("@")
    if ":" in user or any("password" in name for name in options):
        raise JobDefinitionError(
            "The address of a PostgresSink has a password, which would be stored in every manifest of the job.",
            action="Leave it out, and set PGPASSWORD for the driver's process, or use ~/.pgpass or a service file.",
        )
    database = parts.path.lstrip("/") or _setting(options, "dbname", "PGDATABASE", user or _setting({}, "", "PGUSER"))
    return Address(uri, f"{_server(hosts, options)}/{database}")


def _server(hosts: str, options: Mapping[str, str]) -> str:
    """Returns the host with its port; hosts in the URI may be several, each with its port."""
    service = _setting(options, "service", "PGSERVICE")
    hosts = hosts or options.get("host", "")
    if service and not hosts:
        return f"service={service}"
    hosts = hosts or os.environ.get("PGHOST", "localhost")
    has_port = ":" in hosts.rpartition("]")[2]
    return hosts if has_port else f"{hosts}:{_setting(options, 'port', 'PGPORT', '5432')}"


def _setting(options: Mapping[str, str], name: str, variable: str, default: str = "") -> str:
    return options.get(name) or os.environ.get(variable) or default


__all__ = ["Address", "parse"]
