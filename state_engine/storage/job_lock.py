"""The lock of a job on this machine: each process that runs or changes a job holds it, however it was started.

It is `flock` on the file `driver/lock` among the job's control files; the file contains the holder's process number.
The kernel frees the lock when the holder ends, however it ends, so the number is right exactly as long as the lock is
held. The lock is for people: the log keeps two drivers of one job apart on all machines.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from state_engine.errors import JobAlreadyRunningError
from state_engine.storage.durable import make_folder
from state_engine.storage.port import check_name
from state_engine.storage.roots import local_path

CONTROL = "_control"
"""The folder of a job's control files, below the job's own."""
CONTROL_FOLDER = "LAKESTATE_CONTROL"
"""Environment variable: a local folder for the control files of jobs whose root is an object store."""
INHERITED = "LAKESTATE_LOCK_DESCRIPTOR"
"""Environment variable: the descriptor of the lock that a starter has taken for the process that reads it."""

HolderKind = Literal["driver", "program", "restore", "compaction"]
"""What a holder is: a driver, which serves the job by REST once it runs; a user's program; a verb that changes it."""

_FOLDER, _FILE = "driver", "lock"
_TRIES, _PAUSE_S = 20, 0.025
_log = logging.getLogger(__name__)


class Holder(NamedTuple):
    """The process that holds a lock. Its number is null as long as the starter has not written it to the file."""

    pid: int | None
    kind: HolderKind = "driver"

    def __str__(self) -> str:
        suffix = "" if self.kind == "driver" else f" ({self.kind})"
        return f"Process {self.pid}{suffix}" if self.pid is not None else "A process that is just being started"


def control_folder(root: str, job: str) -> Path | None:
    """Returns the local folder of a job's control files: `<root>/<job>/_control`, for a root in the file system.

    For another root it is one below `LAKESTATE_CONTROL`; null if that is not set.
    """
    check_name("job name", job)
    if (folder := local_path(root)) is None:
        local = os.environ.get(CONTROL_FOLDER)
        address = hashlib.sha256(root.rstrip("/").encode()).hexdigest()[:16]
        return Path(local) / address / job if local else None
    return Path(folder) / job / CONTROL


def lock_folder(root: str, job: str) -> Path | None:
    """Returns the folder of a job's lock; null if control files have no place on this machine."""
    folder = control_folder(root, job)
    return folder / _FOLDER if folder is not None else None


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[int | None]:
    """Takes a lock and yields its descriptor, for a process to inherit; null if the lock is held already.

    Our descriptor is closed at the end of the block. The lock stays held if a process has inherited it.
    """
    descriptor = _open(folder)
    try:
        if _lock(descriptor):
            os.ftruncate(descriptor, 0)  # the number of an earlier holder
            yield descriptor
        else:
            yield None
    finally:
        os.close(descriptor)


def name_holder(descriptor: int, pid: int, kind: HolderKind = "driver") -> None:
    """Writes the holder of the lock to its file."""
    os.pwrite(descriptor, (f"{pid}\n" if kind == "driver" else f"{pid} {kind}\n").encode(), 0)


def holder(folder: Path) -> Holder | None:
    """Returns the holder of a lock; null if it is free."""
    try:
        with (folder / _FILE).open("rb") as file:
            if _is_free(file.fileno()):
                return None
            pid, _, kind = file.read().decode(errors="replace").strip().partition(" ")
    except (FileNotFoundError, NotADirectoryError):
        return None
    holder_kind: HolderKind = next((one for one in get_args(HolderKind) if one == kind), "driver")
    return Holder(int(pid) if pid.isdecimal() else None, holder_kind)


class _Held:
    """A lock that this process holds, and how many callers in this process hold it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.count = 1


_HELD: dict[tuple[int, int], _Held] = {}
"""By device and inode of the file, since its path has many spellings."""
_MUTEX = threading.Lock()


def hold(root: str, job: str, kind: HolderKind) -> Callable[[], None]:
    """Takes the lock of a job for this process until the returned function is called, at the latest until it ends.

    A process that holds it already, or has inherited it from its starter, holds it once more: within one process no
    caller is refused, and the log decides. Without a folder for the lock, or on a file system without locks, this does
    nothing.

    Args:
        root: Of the storage.
        job: Name of the job.
        kind: What this process is.

    Returns:
        The function that releases it; only its first call counts.

    Raises:
        JobAlreadyRunningError: Another process of this machine holds it.
        JobDefinitionError: The name cannot be that of a job.
    """
    folder = lock_folder(root, job)
    if folder is None:
        return lambda: None
    try:
        key = _hold(folder, root, job, kind)
    except OSError as error:  # the storage reports what cannot be written, and the log needs no lock
        _log.warning("The lock of job %r in %s cannot be taken, so it keeps no process out: %s", job, folder, error)
        return lambda: None
    once = iter((key,))

    def release() -> None:
        for mine in once:
            _release(mine)

    return release


@contextlib.contextmanager
def holding(root: str, job: str, kind: HolderKind) -> Iterator[None]:
    """Holds the lock of a job during a block, as `hold` does."""
    release = hold(root, job, kind)
    try:
        yield
    finally:
        release()


def already_running(root: str, job: str, found: Holder) -> JobAlreadyRunningError:
    """Returns the error that names the holder of a job, and says what to do about it."""
    remedies = {
        "driver": "`lakestate status` shows how far it is; `lakestate stop` ends it.",
        "program": "End it where it was started; `lakestate stop --kill` ends its process.",
    }
    waiting = "Wait until it has ended, or end it where it was started."
    return JobAlreadyRunningError(
        f"{found} holds job {job!r} under {root} already.", action=remedies.get(found.kind, waiting)
    )


def _hold(folder: Path, root: str, job: str, kind: HolderKind) -> tuple[int, int]:
    with contextlib.ExitStack() as not_kept, _MUTEX:
        descriptor = _open(folder)
        not_kept.callback(os.close, descriptor)
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        if (held := _HELD.get(key)) is not None:
            held.count += 1
            return key
        if (inherited := _inherited(key)) is not None:
            not_kept.close()
            descriptor = inherited
            not_kept.callback(os.close, descriptor)
        if not _lock(descriptor):
            raise already_running(root, job, holder(folder) or Holder(None))
        os.ftruncate(descriptor, 0)
        name_holder(descriptor, os.getpid(), kind)
        not_kept.pop_all()
        _HELD[key] = _Held(descriptor)
        return key


def _release(key: tuple[int, int]) -> None:
    with _MUTEX:
        held = _HELD.get(key)
        if held is None:
            return  # this process was forked meanwhile and holds nothing
        held.count -= 1
        if not held.count:
            del _HELD[key]
            os.close(held.descriptor)


def _inherited(key: tuple[int, int]) -> int | None:
    """Returns the descriptor of this very lock that a starter has passed to this process; looked up only once."""
    number = os.environ.pop(INHERITED, "")
    if not number.isdecimal():
        return None
    try:
        status = os.fstat(int(number))
    except OSError:
        return None
    if (status.st_dev, status.st_ino) != key:
        return None
    os.set_inheritable(int(number), False)
    return int(number)


def _forget() -> None:
    """Closes the locks in a forked process, which is not the named holder: nothing must wait for its end."""
    for held in _HELD.values():
        with contextlib.suppress(OSError):
            os.close(held.descriptor)
    _HELD.clear()


os.register_at_fork(after_in_child=_forget)


def _open(folder: Path) -> int:
    path = str(folder.absolute())
    make_folder(path, path)
    return os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock(descriptor: int) -> bool:
    """Tries more than once: a process that checks whether the lock is held holds it for an instant."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


__all__ = [
    "CONTROL",
    "CONTROL_FOLDER",
    "INHERITED",
    "Holder",
    "HolderKind",
    "already_running",
    "control_folder",
    "hold",
    "holder",
    "holding",
    "lock_folder",
    "name_holder",
    "taken",
]
