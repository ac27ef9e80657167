"""Asks a Delta table that a job reads whether it still has what the position in it needs."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from state_engine.causes import cause_line
from state_engine.epoch.delta_positions import DeltaPosition, TableState, check_files, check_table
from state_engine.errors import SourceUnavailableError
from state_engine.spark.driver.hadoop_files import missing_files, uri_of

_ACTIONS = (
    "add struct<path: string, dataChange: boolean>, remove struct<path: string, dataChange: boolean>, "
    "cdc struct<path: string>"
)
_CHANGE_FEED = ("readchangefeed", "readchangedata")
_IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"
_GONE = ("DELTA_VERSION_NOT_FOUND", "DELTA_NO_RECREATABLE_HISTORY_FOUND", "DELTA_LOG_FILE_NOT_FOUND", "DELTA_TRUNCATED")
"""Beginnings of Delta's errors for a version that cannot be rebuilt. Others are about queries of the past alone."""


def ask_table(spark: SparkSession, number: int, path: str, options: Mapping[str, str], position: DeltaPosition) -> None:
    """Checks that a table still has what a position needs.

    Args:
        spark: The session that is going to read it.
        number: Number of the source.
        path: Path of the table.
        options: The source's options, names in lower case.
        position: The position.

    Raises:
        SourcePositionLostError: The table, its commits or its data files are gone.
        SourceUnavailableError: The file system of the table does not answer.
    """
    try:
        found = _state_of(spark, path, position)
        check_table(number, path, position, found, loss_allowed=_is_on(options, "failondataloss", "false"))
        if found is not None and found.has_next:
            check_files(number, path, _missing(spark, path, options, position, found.newest))
    except (Py4JJavaError, PySparkException) as error:
        raise SourceUnavailableError(
            f"Source {number}: the Delta table at {path} could not be read: {cause_line(error)}",
            action="Check its _delta_log, and the credentials and endpoint of the session. Nothing was written.",
        ) from error


def _state_of(spark: SparkSession, path: str, position: DeltaPosition) -> TableState | None:
    """Returns the state of a table; None if there is none.

    Delta's class is asked, since DESCRIBE DETAIL counts all files of a table.
    """
    jvm: Any = spark._jvm
    snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, path)._2()
    newest = int(snapshot.version())
    if newest < 0:
        return None
    has_next = position.version > newest or _has(spark, path, position)
    return TableState(str(snapshot.metadata().id()), newest, has_next)


def _has(spark: SparkSession, path: str, position: DeltaPosition) -> bool:
    if not position.in_snapshot:
        return not missing_files(spark, [_commit(uri_of(spark, path), position.version)])
    try:
        spark.read.format("delta").option("versionAsOf", position.version).load(path)
    except AnalysisException as error:
        return not (error.getCondition() or "").startswith(_GONE)
    return True


def _missing(
    spark: SparkSession, path: str, options: Mapping[str, str], position: DeltaPosition, newest: int
) -> Sequence[str]:
    """Returns data files that are gone, of those that the source is certainly going to read."""
    commits = position.commits(newest)
    if not commits or "excluderegex" in options or spark.conf.get(_IGNORE_MISSING, "false") == "true":
        return ()
    actions = _actions(spark, path, commits)
    if any(_is_on(options, name, "true") for name in _CHANGE_FEED):
        read = actions.select("cdc.path").where("path IS NOT NULL")
    else:
        read = _removed(actions, position, skips=_is_on(options, "skipchangecommits", "true"))
    table = uri_of(spark, path)
    return missing_files(spark, [_file_uri(table, name) for name in sorted(row.path for row in read.collect())])


def _is_on(options: Mapping[str, str], name: str, value: str) -> bool:
    return options.get(name, "").lower() == value


def _actions(spark: SparkSession, path: str, commits: range) -> DataFrame:
    """Returns the actions of commits, each with the name of its commit's file."""
    reader = spark.read.schema(_ACTIONS).option("__globPaths__", "false")  # a path is no pattern, also with a {
    return reader.json([_commit(path, version) for version in commits]).select("*", "_metadata.file_name")


def _removed(actions: DataFrame, position: DeltaPosition, *, skips: bool) -> DataFrame:
    """Returns the data files that the source reads although the newest version of the table does not have them.

    Only VACUUM deletes files, and only such ones. Of a commit or a snapshot that was read in part, no file is returned:
    which of them are left to read is known by their order alone.

    Args:
        actions: Of the commits that the source reads.
        position: Its position.
        skips: Whether the source skips commits that change rows (`skipChangeCommits`).
    """
    removed = actions.select("remove.path").where("path IS NOT NULL").distinct()
    if position.in_snapshot and position.last_file < 0:
        return removed
    added = actions.where("add.dataChange")
    if position.last_file >= 0:
        added = added.where(F.col("file_name") != f"{position.version:020d}.json")
    if skips:
        changing = actions.where("remove.dataChange").select("file_name").distinct()
        added = added.join(changing, "file_name", "left_anti")
    return removed.join(added.select(F.col("add.path").alias("path")), "path", "left_semi")


def _commit(table: str, version: int) -> str:
    return f"{table}/_delta_log/{version:020d}.json"


def _file_uri(table: str, name: str) -> str:
    return name if urlsplit(name).scheme else f"{table}/{name}"


__all__ = ["ask_table"]
