"""Settings of Kafka's clients: those that an author gives, and secrets from the environment of the process."""

import os
import re
from collections.abc import Mapping

from state_engine.errors import JobDefinitionError

PREFIX = "LAKESTATE_KAFKA_"
_SECRET = re.compile(r"password|passphrase|secret|private|key\.pem$|jaas|credential|oauthbearer\.config", re.IGNORECASE)
_OURS = {
    "bootstrap.servers": "the first argument",
    "transactional.id": "job and sink, which fence older drivers",
    "enable.idempotence": "the sink, which needs it",
    "acks": "the sink, which needs all",
    "isolation.level": "the sink, which reads what was committed",
    "group.id": "the sink, which has no group",
    "partitioner": "the sink, which chooses partitions as Kafka's Java clients do",
}


def checked(options: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Returns an author's settings as texts.

    Raises:
        JobDefinitionError: One is a secret, which manifests would record, or is the sink's own.
    """
    for name in options:
        if _SECRET.search(name):
            variable = PREFIX + name.upper().replace(".", "_")
            raise JobDefinitionError(
                f"The setting {name!r} of a KafkaSink is a secret, which would be stored in every manifest of the job.",
                action=f"Leave it out, and set {variable} for the driver's process.",
            )
        _refuse_ours(name, name)
    return {name: _text(value) for name, value in options.items()}


def client_settings(servers: str, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that all clients share, with those of the environment.

    Raises:
        JobDefinitionError: The environment has one that is the sink's own.
    """
    names = {
        name: name.removeprefix(PREFIX).lower().replace("_", ".") for name in os.environ if name.startswith(PREFIX)
    }
    for variable, setting in names.items():
        _refuse_ours(setting, variable)
    given = {setting: os.environ[name] for name, setting in names.items()}
    return {"reconnect.backoff.max.ms": "1000", **given, **options, "bootstrap.servers": servers}


def _refuse_ours(name: str, given: str) -> None:
    if name in _OURS:
        raise JobDefinitionError(
            f"The setting {given} of a KafkaSink is decided by {_OURS[name]}.", action="Leave it out."
        )


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


__all__ = ["PREFIX", "checked", "client_settings"]
