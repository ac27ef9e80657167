"""Java options with which a driver's JVM takes Spark's classes from the archive of `spark/class_archive.py`."""

import sys
from pathlib import Path

QUIET = "-Xlog:cds*=off"
"""An archive that does not fit is not worth a message: Java would print one on standard output in every process."""


def archive_file() -> Path:
    """Returns where the archive of this environment is, if it was written."""
    return Path(sys.prefix) / "share" / "lakestate" / "spark-classes.jsa"


def archive_options(archive: Path | None = None) -> str:
    """Returns the Java options that use the archive; empty if it was not written."""
    archive = archive or archive_file()
    return f'-XX:SharedArchiveFile="{archive}" {QUIET}' if archive.exists() else ""


__all__ = ["QUIET", "archive_file", "archive_options"]
