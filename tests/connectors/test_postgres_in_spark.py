"""Real processes that write to a real server, both killed: each row is there once, counted by SQL."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import postgres_job
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from postgres_programs import needed_programs

from state_engine.spark.worker.kill_at import CRASH_AT
from state_engine.testing.postgres_server import DATABASE, PASSWORD, USER, PostgresServer, postgres_server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
SCRIPT = Path(postgres_job.__file__)
Query = Callable[..., list[Any]]


def write_input(folder: Path, files: int, rows: int, keys: int) -> None:
    (folder / "in").mkdir()
    for number in range(files):
        n = np.arange(number * rows, (number + 1) * rows)
        pq.write_table(pa.table({"n": n, "k": n * 7919 % keys}), folder / "in" / f"part-{number:03}.parquet")
        os.utime(folder / "in" / f"part-{number:03}.parquet", (1_600_000_000 + number,) * 2)


def begin(folder: Path, uri: str, schema: str, crash_at: str | None = None) -> subprocess.Popen[str]:
    environment = {**os.environ, "PGPASSWORD": PASSWORD} | ({CRASH_AT: crash_at} if crash_at else {})
    command = [sys.executable, str(SCRIPT), str(folder), uri, schema]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: subprocess.Popen[str], code: int) -> None:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == code, output[-4000:]


def check(query: Query, schema: str, rows: int, keys: int) -> None:
    """Compares both tables with what SQL counts in the input's definition."""
    counts = "SELECT count(*), count(DISTINCT n), min(n), max(n) FROM"
    assert query(f"{counts} {schema}.log") == [(rows, rows, 0, rows - 1)]
    wrong = (
        "SELECT count(*) FROM (SELECT n, k, c, row_number() OVER (PARTITION BY k ORDER BY n) AS wanted "
        f"FROM {schema}.log) AS l WHERE c <> wanted OR k <> n * 7919 % {keys}"
    )
    assert query(wrong) == [(0,)]
    assert query(f"SELECT count(*), sum(c) FROM {schema}.latest") == [(keys, rows)]
    newest = f"SELECT k, max(c) AS c, max(n) AS n FROM {schema}.log GROUP BY k"
    assert query(f"SELECT count(*) FROM {schema}.latest AS t JOIN ({newest}) AS l USING (k, c, n)") == [(keys,)]


# Without a JVM: test_postgres_sessions.py::test_a_driver_that_dies_loses_and_doubles_nothing.
@pytest.mark.long
def test_a_job_that_is_killed_between_its_two_sinks(
    server: PostgresServer, query: Query, schema: str, tmp_path: Path
) -> None:
    write_input(tmp_path, files=4, rows=200, keys=30)
    ended(begin(tmp_path, server.uri, schema, crash_at="E7_SINK_COMMITTED@3"), -signal.SIGKILL)
    ended(begin(tmp_path, server.uri, schema), 0)
    check(query, schema, 800, 30)
    for file in (tmp_path / "root").rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), f"the password is in {file}"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_million_rows_ten_kills_and_two_crashes_of_the_server(tmp_path: Path) -> None:
    files, rows, keys = 100, 10_000, 1_000
    write_input(tmp_path, files, rows, keys)
    chance = random.Random()
    with postgres_server(needed_programs()) as server:

        def query(statement: str) -> list[Any]:
            options: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "dbname": DATABASE, "user": USER}
            connection = psycopg2.connect(password=PASSWORD, **options)
            try:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    return cursor.fetchall()
            finally:
                connection.close()

        def written() -> int:
            if query("SELECT to_regclass('public.log')") == [(None,)]:
                return 0
            return int(query("SELECT count(*) FROM public.log")[0][0])

        def wait_for_more(process: subprocess.Popen[str], least: int) -> None:
            while written() < least and process.poll() is None:
                time.sleep(0.05)

        for kill in range(10):
            process = begin(tmp_path, server.uri, "public")
            wait_for_more(process, (kill + 1) * files * rows // 13)
            time.sleep(chance.random() * 0.5)
            if kill in (3, 7):
                server.stop(signal.SIGQUIT)
                threading.Timer(2.0, server.start).start()
                time.sleep(4)
                wait_for_more(process, written() + 1)
            process.send_signal(signal.SIGKILL)
            ended(process, -signal.SIGKILL)
        ended(begin(tmp_path, server.uri, "public"), 0)
        check(query, "public", files * rows, keys)
