"""Asks whether files of a source exist, through the file systems of Hadoop, which Spark's sources use themselves."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from state_engine.causes import cause_line
from state_engine.errors import SourceUnavailableError

_AT_ONCE = 16
"""Questions to an object store at a time; one takes some 20 ms."""


def missing_files(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Returns those files that do not exist, in their order.

    Args:
        spark: A session with the credentials of their file systems.
        paths: Their URIs or local paths, with special characters in percent encoding, as Spark's log of a source and
            Delta's log have them.

    Raises:
        SourceUnavailableError: Their file system does not answer, or refuses.
    """
    settings = None if all(map(_is_local, paths)) else _settings_of(spark)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        exist = list(pool.map(lambda path: _exists(spark, path, settings), paths))
    return [path for path, is_there in zip(paths, exist, strict=True) if not is_there]


def has_own_access(options: Mapping[str, str]) -> bool:
    """Returns whether a source has settings of its file system among its options, which only its reader knows."""
    return any(name.startswith(("fs.", "dfs.")) for name in options)


def uri_of(spark: SparkSession, path: str) -> str:
    """Returns the URI of a folder, as Hadoop reads its path; special characters in percent encoding."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    return str(hadoop.getFileSystem(_settings_of(spark)).makeQualified(hadoop).toUri().toString())


def _is_local(path: str) -> bool:
    return urlsplit(path).scheme in ("", "file")


def _exists(spark: SparkSession, path: str, settings: Any) -> bool:
    if _is_local(path):
        return os.path.exists(unquote(urlsplit(path).path))
    jvm: Any = spark._jvm
    try:
        hadoop = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
        return bool(hadoop.getFileSystem(settings).exists(hadoop))
    except (Py4JJavaError, PySparkException) as error:
        raise SourceUnavailableError(
            f"Whether {path} exists is not known: {cause_line(error)}",
            action="Check the credentials and the endpoint of Spark's session. Nothing was written.",
        ) from None


def _settings_of(spark: SparkSession) -> Any:
    """Returns the session's settings of file systems; each call copies them all."""
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


__all__ = ["has_own_access", "missing_files", "uri_of"]
