"""How the JVM of a driver takes Spark's classes from the archive that `spark/class_archive.py` writes."""

import sys
from pathlib import Path

QUIET = "-Xlog:cds*=off"
"""An archive that does not fit is no news: Java would say so on the standard output of every process."""


def archive_file() -> Path:
    """Returns where the archive of this environment is, if it was written."""
    return Path(sys.prefix) / "share" / "lakestate" / "spark-classes.jsa"


def archive_options(archive: Path | None = None) -> str:
    """Returns the options of Java that use the archive; none where it was not written."""
    archive = archive or archive_file()
    return f'-XX:SharedArchiveFile="{archive}" {QUIET}' if archive.exists() else ""


__all__ = ["QUIET", "archive_file", "archive_options"]
