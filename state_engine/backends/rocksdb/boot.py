"""Detects databases in which a crash of the machine may have left a hole. They are caches, and start anew.

RocksDB appends each batch to a write-ahead log, which is never synced. A machine that dies loses the end of the log.
RocksDB reads the log up to the first broken record. So the database is as it was some epochs ago, and so is its token.

While RocksDB writes a full buffer to a file, there are two logs: that of the buffer, and the next one. If the machine
dies then, the second log may be on disk, but not the end of the first. If the first log then ends between two batches,
RocksDB still replays the second one: the token is the newest, and changes before it are missing.

```
<slot>/
  db     the database
  boot   id of the boot of the machine in which the database was last opened
```

If only the process dies, no log is lost. The boot id tells the two cases apart. It need not be synced: an id that was
lost is not that of this boot.
"""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Returns an id that changes each time the machine starts; an empty one if the system has none."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def may_have_a_hole(database: Path) -> bool:
    """Returns whether the machine may have died while a database, now closed, had two write-ahead logs."""
    logs = [log for log in database.glob("*.log") if log.stat().st_size > 0]
    return len(logs) > 1 and _marked(database) != boot_id()


def mark(database: Path) -> None:
    """Records that a database is opened in this boot."""
    if _marked(database) != boot_id():
        database.with_name("boot").write_text(boot_id(), "ascii")


def _marked(database: Path) -> str | None:
    try:
        return database.with_name("boot").read_text("ascii")
    except OSError:
        return None


__all__ = ["boot_id", "mark", "may_have_a_hole"]
