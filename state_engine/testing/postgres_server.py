"""Runs a PostgreSQL server on a free port of the loopback, for tests of jobs that write to one.

It needs the server's programs: Debian's package `postgresql`, or a folder of the PATH.
"""

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

USER, PASSWORD, DATABASE = "lakestate", "an umbrella", "postgres"


class PostgresServer:
    """A server with an empty database.

    Args:
        programs: Folder of its programs.
        folder: An empty folder.
        settings: Settings of `postgresql.conf`.
    """

    def __init__(self, programs: Path, folder: Path, **settings: str) -> None:
        self._programs = programs
        self._folder = folder
        self._settings = settings
        self._owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to be run by root
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "password").write_text(PASSWORD)
        if self._owner is not None:
            for path in (folder, folder / "password"):
                os.chown(path, pwd.getpwnam(self._owner).pw_uid, -1)
        first = [programs / "initdb", "-D", folder / "data", "-U", USER, "-A", "scram-sha-256", "--no-sync"]
        first += ["--pwfile", folder / "password"]
        subprocess.run([*map(str, first)], user=self._owner, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    @property
    def uri(self) -> str:
        """Its address without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def start(self) -> None:
        """Starts the server, and waits until it takes connections."""
        command = [self._programs / "postgres", "-D", self._folder / "data", "-p", self.port, "-h", "127.0.0.1"]
        command += ["-k", self._folder, *(f"--{name}={value}" for name, value in self._settings.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*map(str, command)], user=self._owner, cwd=self._folder, stdout=log, stderr=log
            )
        ask = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until = time.monotonic() + 60
        while subprocess.run(ask, check=False).returncode != 0:
            assert self._process.poll() is None, f"PostgreSQL did not start: {(self._folder / 'log').read_text()}"
            assert time.monotonic() < until, "PostgreSQL is not ready"
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops the server. SIGINT ends its sessions; SIGQUIT is a crash, from which it recovers at the next start."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)


def postgres_programs() -> Path | None:
    """Returns the folder with the server's programs: Debian's newest, or one of the PATH; None if no folder has all."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    folders = [*map(Path, os.get_exec_path()), *debian]
    wanted = ("initdb", "postgres", "pg_isready")
    return next((one for one in reversed(folders) if all((one / name).is_file() for name in wanted)), None)


@contextlib.contextmanager
def postgres_server(programs: Path, **settings: str) -> Iterator[PostgresServer]:
    """Runs a server with an empty database.

    Args:
        programs: Folder of its programs, as `postgres_programs` returns it.
        settings: Settings of `postgresql.conf`.
    """
    with tempfile.TemporaryDirectory(prefix="lakestate-postgres-") as name:
        server = PostgresServer(programs, Path(name), **settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


__all__ = ["DATABASE", "PASSWORD", "USER", "PostgresServer", "postgres_programs", "postgres_server"]
