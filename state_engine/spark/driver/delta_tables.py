"""Asks a Delta table that a job reads whether it still has what the position in it needs."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from state_engine.epoch.delta_positions import DeltaPosition, TableState, check_files, check_table
from state_engine.spark.driver.hadoop_files import missing_files, uri_of

_ACTIONS = "add struct<path: string, dataChange: boolean>, remove struct<path: string>, cdc struct<path: string>"
_CHANGE_FEED = ("readchangefeed", "readchangedata")
_IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"


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
    found = _state_of(spark, path, position)
    check_table(number, path, position, found, loss_allowed=options.get("failondataloss", "true").lower() == "false")
    if found is None or not found.has_next or spark.conf.get(_IGNORE_MISSING, "false") == "true":
        return
    commits = position.commits(found.newest)
    if commits:
        at_risk = _removed(_actions(spark, path, commits), position, changes=any(map(options.get, _CHANGE_FEED)))
        table = uri_of(spark, path)
        check_files(number, path, missing_files(spark, [_file_uri(table, name) for name in at_risk]))


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
    except AnalysisException:  # neither a checkpoint nor all commits up to that version
        return False
    return True


def _actions(spark: SparkSession, path: str, commits: range) -> DataFrame:
    """Returns the actions of commits."""
    reader = spark.read.schema(_ACTIONS).option("__globPaths__", "false")  # a path is no pattern, also with a {
    return reader.json([_commit(path, version) for version in commits])


def _removed(actions: DataFrame, position: DeltaPosition, *, changes: bool) -> list[str]:
    """Returns the data files that the source reads although the newest version of the table does not have them.

    Only VACUUM deletes files, and only such ones.

    Args:
        actions: Of the commits that the source reads.
        position: Its position.
        changes: Whether it reads the change feed.
    """
    removed = actions.select("remove.path").where("path IS NOT NULL").distinct()
    if changes:
        removed = removed.union(actions.select("cdc.path").where("path IS NOT NULL"))
    elif not position.in_snapshot:  # what those commits have not added was read before
        added = actions.where("add.dataChange").select(F.col("add.path").alias("path"))
        removed = removed.join(added, "path", "left_semi")
    return sorted(row.path for row in removed.collect())


def _commit(table: str, version: int) -> str:
    return f"{table}/_delta_log/{version:020d}.json"


def _file_uri(table: str, name: str) -> str:
    return name if urlsplit(name).scheme else f"{table}/{name}"


__all__ = ["ask_table"]
