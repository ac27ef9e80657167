"""Runs a PostgreSQL server on a free port of the loopback, with the programs of Debian's package."""

import contextlib
import os
import pwd
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from live_dagster import free_ports

USER, PASSWORD, DATABASE = "dagster", "an umbrella", "postgres"


def postgres_programs() -> Path | None:
    """Returns the folder with the server's programs: Debian's newest, or one of the PATH; None if no folder has all."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    folders = [*map(Path, os.get_exec_path()), *debian]
    wanted = ("initdb", "postgres", "pg_isready")
    return next((one for one in reversed(folders) if all((one / name).is_file() for name in wanted)), None)


@contextlib.contextmanager
def postgres_server(programs: Path) -> Iterator[dict[str, str]]:
    """Runs a server with an empty database; yields the variables that `deploy/postgres/dagster.yaml` uses."""
    (port,) = free_ports(1)
    owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to be run by root
    with tempfile.TemporaryDirectory(prefix="lakestate-postgres-") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if owner is not None:
            for path in (folder, folder / "password"):
                os.chown(path, pwd.getpwnam(owner).pw_uid, -1)
        data = folder / "data"
        first = [programs / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--no-sync"]
        first += ["--pwfile", folder / "password"]
        subprocess.run([*map(str, first)], user=owner, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        command = [programs / "postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", folder]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([*map(str, command)], user=owner, cwd=folder, stdout=log, stderr=log)
        try:
            _wait_until_ready(programs, port, server)
            yield {
                "DAGSTER_PG_HOST": "127.0.0.1",
                "DAGSTER_PG_PORT": str(port),
                "DAGSTER_PG_DB": DATABASE,
                "DAGSTER_PG_USERNAME": USER,
                "DAGSTER_PG_PASSWORD": PASSWORD,
            }
        finally:
            server.send_signal(signal.SIGINT)  # also ends sessions
            server.wait(60)


def _wait_until_ready(programs: Path, port: int, server: subprocess.Popen[bytes]) -> None:
    ask = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    until = time.monotonic() + 60
    while subprocess.run(ask, check=False).returncode != 0:
        assert server.poll() is None, "PostgreSQL did not start"
        assert time.monotonic() < until, "PostgreSQL is not ready"
        time.sleep(0.1)
