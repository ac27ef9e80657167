"""A real stream for tests: a job of `live_job` in a process of its own, fed file by file."""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from live_job import COLUMNS, Row, input_of, random_rows, tables_of

from lakestate.control import read_endpoint
from lakestate.errors import JobNotRunningError
from lakestate.runner_events import Failed
from lakestate.runner_process import RunnerProcess, runner_command
from lakestate.start_request import StartRequest
from lakestate.supervision import kill_driver
from state_engine.inspect import diff_states, open_job
from state_engine.inspect.diff import StateDiff
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest


def announce(folder: Path, *jobs: str) -> None:
    """Writes the metadata of a distribution with these jobs as entry points; `folder` goes onto the Python path."""
    information = folder / "live_jobs-1.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: live-jobs\nVersion: 1\n")
    lines = [f"{job} = live_job:build_{job}" for job in jobs]
    (information / "entry_points.txt").write_text("\n".join(["[lakestate.jobs]", *lines, ""]))


class LiveStream:
    """One job; use as a context manager, which ends its process.

    `start` runs it as a child of the test. The code under test may start it as well: everything else here
    reads the files.

    Args:
        root: Root of the states; input and output are beside it.
        job: Its name, announced as an entry point.
    """

    def __init__(self, root: Path, job: str) -> None:
        self.root, self.job = str(root), job
        self.rows: list[Row] = []
        self._input = input_of(self.root, job)
        self._input.mkdir(parents=True)
        self._log = root.parent / f"{job}.log"
        self._process: RunnerProcess | None = None
        self._failure: Failed | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "LiveStream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._kill_detached()
        if error is not None:
            print(f"--- log of {self.job}\n{self.log()}")

    def log(self) -> str:
        """Returns the end of what its process printed."""
        return self._log.read_text(errors="replace")[-8_000:] if self._log.exists() else ""

    def start(
        self,
        *,
        restore: str | None = None,
        parallelism: int | None = None,
        available_now: bool = False,
        crash_at: str | None = None,
        **options: str,
    ) -> "LiveStream":
        """Starts the job and waits until it runs; its first start needs input."""
        request = StartRequest(
            options=options,
            restore=restore,
            parallelism=parallelism,
            available_now=available_now,
            trigger_interval_ms=0,
        )
        command = runner_command(self.job, self.root, request)
        before = self.head()
        process = self._process = RunnerProcess(command, log=self._log, crash_at=crash_at)
        self._failure = None
        self._thread = threading.Thread(target=self._follow, args=(process,), daemon=True)
        self._thread.start()
        if crash_at is None:
            self.wait_for(lambda: self.head() != before, "the claim of its start")
        return self

    def _follow(self, process: RunnerProcess) -> None:
        for event in process.events():
            if isinstance(event, Failed):
                self._failure = event

    def stop(self) -> None:
        """Stops the job between two epochs, and waits for its end."""
        assert self._process is not None
        self._process.request_stop()
        code = self._process.wait()
        self._join()
        assert code == 0, self.log()

    def wait_for_end(self, timeout_s: float = 300) -> int:
        """Waits until its process ends by itself; returns the exit code."""
        assert self._process is not None
        code = self._process.wait(timeout_s)
        self._join()
        return code

    def kill(self) -> None:
        """Kills its process and the JVM, if `start` started them."""
        if self._process is not None:
            self._process.kill()
            self._join()

    def _kill_detached(self) -> None:
        """Kills a process of this job that the test did not start, and its JVM; no supervisor restarts it."""
        endpoint = read_endpoint(self.root, self.job)
        if endpoint is None or endpoint.pid != os.getpid():
            with contextlib.suppress(JobNotRunningError):
                kill_driver(self.root, self.job)

    def _join(self) -> None:
        self._process = None
        if self._thread is not None:
            self._thread.join(30)

    @property
    def runs(self) -> bool:
        """Whether the process that `start` started still runs."""
        return self._process is not None and self._failure is None

    def feed(self, files: int = 1, rows: int = 60) -> "LiveStream":
        """Adds `files` files of `rows` records to its input; each becomes an epoch."""
        for _ in range(files):
            new = random_rows(rows, first=len(self.rows))
            self._write(new)
            self.rows.extend(new)
        return self

    def _write(self, rows: list[Row]) -> None:
        number = len(list(self._input.iterdir()))
        schema = pa.schema([(column.split()[0], _ARROW[column.split()[1]]) for column in COLUMNS.split(", ")])
        path = self._input / f"part-{number:04d}.parquet"
        draft = path.with_name(f".{path.name}")
        pq.write_table(pa.Table.from_pylist([row._asdict() for row in rows], schema=schema), draft)
        os.utime(draft, (1_600_000_000 + 10 * number,) * 2)  # read in this order
        draft.rename(path)

    def wait_until_read(self, timeout_s: float = 300) -> "LiveStream":
        """Waits until all input has reached the last table."""
        self.wait_for(lambda: len(self.totals()) == len(self.rows), f"{len(self.rows)} rows", timeout_s)
        return self

    def wait_for(self, condition: Callable[[], Any], what: str, timeout_s: float = 300) -> Any:
        """Waits until `condition()` is true, and returns its result."""
        until = time.monotonic() + timeout_s
        while not (result := condition()):
            assert self._failure is None, self._failure
            assert time.monotonic() < until, f"waited for {what} of {self.job}\n{self.log()}"
            time.sleep(0.05)
        return result

    def tally(self) -> list[tuple[Any, ...]]:
        """Returns the rows of the first operator's table, in order."""
        return self._table("tally")

    def totals(self) -> list[tuple[Any, ...]]:
        """Returns the rows of the second operator's table, in order."""
        return self._table("totals")

    def _table(self, name: str) -> list[tuple[Any, ...]]:
        path = tables_of(self.root, self.job) / name
        if not (path / "_delta_log").is_dir():
            return []
        table = DeltaTable(str(path)).to_pyarrow_table()
        columns = [column for column in table.column_names if not column.startswith("_")]
        return sorted(tuple(row[column] for column in columns) for row in table.to_pylist())

    def head(self) -> StoredManifest | None:
        """Returns the newest sealed epoch."""
        return open_job(self.root, self.job).newest()

    @property
    def newest(self) -> Manifest:
        """The newest sealed epoch of a job that has one."""
        head = self.head()
        assert head is not None
        return head.manifest

    @property
    def place(self) -> str:
        """The newest sealed epoch, in the form that `diff_states` and restores take."""
        return f"epoch:{self.newest.generation}/{self.newest.epoch}"

    @property
    def checkpoint(self) -> int:
        """Id of the newest completed checkpoint; 0 before the first one."""
        row = open_job(self.root, self.job).newest_checkpoint()
        return (row.checkpoint_id or 0) if row is not None else 0

    def differences(self, before: str, after: str) -> list[StateDiff]:
        """Returns the differences between the states at two epochs, with every entry."""
        return list(diff_states(self.root, self.job, before, after, examples=1_000_000))

    def changed_keys(self, before: str, after: str) -> set[tuple[str, str, str]]:
        """Returns (operator, state, key) of all entries that differ between two epochs."""
        return {
            (diff.uid, diff.state, next(iter(entry.entry.values())))
            for diff in self.differences(before, after)
            for entry in diff.examples
        }


_ARROW = {"bigint": pa.int64(), "string": pa.string()}
