"""The folders of the tests are in memory if there is room, because tests spend much of their time waiting for a disk.

The controller makes `/dev/shm/lakestate-<its pid>`, and everything that makes temporary folders uses it: pytest's
`tmp_path`, `tempfile`, Spark and the JVM, also in processes that tests start. If TMPDIR or `--basetemp` is set, folders
are in the place that it names. After a failed run the folders of the failed tests stay until the next run.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM = 4 << 30  # a run of `make test` uses less than a quarter of it at any time
NAME = "lakestate-"


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.basetemp or "TMPDIR" in os.environ:
        return
    sweep(MEMORY)
    if has_room(MEMORY):
        config.pluginmanager.register(_InMemory(config), "lakestate-memory-folder")


def has_room(memory: Path) -> bool:
    """Returns whether `memory` is a file system (not a folder of one on a disk) with enough free space."""
    return memory.is_mount() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= ROOM


def sweep(memory: Path) -> None:
    """Removes the folders of runs that have ended, killed ones too."""
    for folder in memory.glob(f"{NAME}*"):
        pid = folder.name.removeprefix(NAME)
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


class _InMemory:
    def __init__(self, config: pytest.Config) -> None:
        self._failed = False
        self._folder = MEMORY / f"{NAME}{os.getpid()}"
        temporary = self._folder / "tmp"
        temporary.mkdir(parents=True)
        for folder in (self._folder, temporary):
            folder.chmod(0o711)  # PostgreSQL's server runs as another user, and has its folder in it
        config.option.basetemp = str(self._folder / "pytest")
        os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = str(temporary)
        os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={temporary}"
        tempfile.tempdir = None  # drops the folder that it chose before

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        if exitstatus:
            terminalreporter.write_line(f"Folders of tests that failed are in {self._folder} until the next run.")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._failed = bool(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if not self._failed:
            shutil.rmtree(self._folder, ignore_errors=True)
