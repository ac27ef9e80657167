"""Provides the jars of Delta and of connectors: resolved once, kept in a cache, handed to Spark as files.

`spark.jars.packages` would ask Ivy at every start, which costs 4 s each time; `spark.jars` with the files of Delta's
own groups does not. So a child process lets Delta's pip helper resolve once, and the jars are kept under

    <cache>/<coordinate>/*.jar
    <cache>/<coordinate>/complete.json    names, sizes and SHA-256, written last

A folder is built under a unique name and renamed into place. So a download that stopped half-way is never taken for a
finished one, and two processes that resolve at the same time do not disturb each other. `LAKESTATE_JARS` names a folder
of jars for machines without a network.

`python -m state_engine.spark.jars` fills the cache ahead of time. `kafka` and `kafka-broker` behind it add what Spark
needs to read Kafka, and a broker.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyspark

from state_engine.errors import LakestateError

SCALA = "2.13"
MARKER = "complete.json"
MARKER_VERSION = 1
OWN_GROUPS = ("io.delta_", "io.unitycatalog_")
"""Beginnings of Ivy's file names of the jars that Delta needs beyond those that pyspark ships."""

Resolver = Callable[[Path], list[Path]]
"""Downloads what is needed below the given empty folder, and returns the jars."""


class JarSet(NamedTuple):
    """Jars that belong together.

    Attributes:
        what: What they are, for messages.
        coordinates: What to resolve; the first one names the folder in the cache.
        needed: Names of the jars without which a folder of a machine without a network does not have the set.
        resolve: Downloads them.
        own: Beginnings of Ivy's file names of the jars to keep; empty: all.
        deep: Whether the set has more jars than those of its coordinates.
    """

    what: str
    coordinates: tuple[str, ...]
    needed: tuple[str, ...]
    resolve: Resolver
    own: tuple[str, ...] = ()
    deep: bool = False

    @property
    def folder(self) -> str:
        """Name of its folder in the cache."""
        return self.coordinates[0].replace(":", "_")


class JarsUnavailableError(LakestateError):
    """Jars are neither on this machine nor available."""


def coordinate() -> str:
    """Returns the Maven coordinate of the Delta release that fits the installed `pyspark` and `delta-spark`."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{version('delta-spark')}"


def cache_folder() -> Path:
    """Returns where the jars are kept: `LAKESTATE_JARS_CACHE`, otherwise below the user's cache folder."""
    if named := os.environ.get("LAKESTATE_JARS_CACHE"):
        return Path(named).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "lakestate" / "jars"


def delta_jars(folder: Path | None = None, *, resolve: Resolver | None = None) -> list[Path]:
    """Returns the jars that Spark needs for Delta, resolving them if the cache does not hold them.

    A JVM starts only when something has to be resolved. A cached jar that is damaged is fetched again.

    Args:
        folder: A folder of jars to use as it is, for machines without a network. Defaults to `LAKESTATE_JARS`.
        resolve: How to get the jars; for tests.

    Raises:
        JarsUnavailableError: The folder lacks a jar, a jar is damaged, or nothing could be downloaded.
    """
    return _provided(_delta(resolve or _resolve_with_ivy), folder)


def connector_jars(connectors: Collection[str], folder: Path | None = None) -> list[Path]:
    """Returns the jars that Spark needs for connectors; as `delta_jars`.

    Args:
        connectors: Their names: `kafka`.
        folder: A folder that holds them, too.

    Raises:
        JarsUnavailableError: There is no connector of this name, or as `delta_jars`.
    """
    jars: list[Path] = []
    for name in connectors:
        if name not in CONNECTORS:
            raise JarsUnavailableError(
                f"There is no connector {name!r}.", action=f"Choose one of: {', '.join(sorted(CONNECTORS))}."
            )
        jars += _provided(CONNECTORS[name](), folder)
    return jars


def broker_jars() -> list[Path]:
    """Returns the jars of a Kafka broker, for tests and examples; raises JarsUnavailableError as `delta_jars`."""
    ships = Path(pyspark.__file__).parent / "jars"  # Spark's Ivy leaves out what Spark itself has
    return [*_provided(_kafka_broker()), *ships.glob("scala-library-*.jar")]


def _provided(wanted: JarSet, folder: Path | None = None) -> list[Path]:
    if folder is None and (named := os.environ.get("LAKESTATE_JARS")):
        folder = Path(named).expanduser()
    if folder is not None:
        return _from_folder(folder, wanted)
    cached = cache_folder() / wanted.folder
    if (jars := _complete(cached)) is not None:
        return jars
    return _fill(cached, wanted)


def _delta(resolve: Resolver) -> JarSet:
    _, artifact, release = coordinate().split(":")
    needed = (f"{artifact}-{release}.jar", f"delta-storage-{release}.jar")
    return JarSet("Delta", (coordinate(),), needed, resolve, OWN_GROUPS, deep=True)


def _kafka() -> JarSet:
    """The jars of Spark's Kafka source, and nothing that pyspark ships."""
    coordinates = (
        f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version('pyspark')}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:4.0.0",  # its release of 4.2.0 is not served
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    )
    return JarSet("Kafka", coordinates, _names(coordinates), partial(_resolve_alone, coordinates))


def _kafka_broker() -> JarSet:
    """The jars of a broker, with all that they need."""
    coordinates = (f"org.apache.kafka:kafka_{SCALA}:4.1.0", "org.apache.kafka:kafka-tools:4.1.0")
    resolve = partial(_resolve_alone, coordinates, deep=True)
    return JarSet("a Kafka broker", coordinates, _names(coordinates), resolve, deep=True)


CONNECTORS: Mapping[str, Callable[[], JarSet]] = MappingProxyType({"kafka": _kafka})
"""The connectors of Spark that `local_session(connectors=[…])` knows."""


def _names(coordinates: Sequence[str]) -> tuple[str, ...]:
    return tuple("{1}-{2}.jar".format(*one.split(":")) for one in coordinates)


def _from_folder(folder: Path, wanted: JarSet) -> list[Path]:
    action = (
        f"Run `python -m state_engine.spark.jars {' '.join(CONNECTORS)}` on a machine with a network, and copy the "
        "jars of the folders that it prints into one; or name another folder with LAKESTATE_JARS. It must hold "
        f"{' and '.join(wanted.needed)}."
    )
    groups = {one.split(":")[0] for one in wanted.coordinates}
    jars = sorted(folder.glob("*.jar"))
    found = {_bare(jar.name, groups): jar for jar in jars}
    missing = [name for name in wanted.needed if name not in found]
    if missing:
        raise JarsUnavailableError(f"The folder of jars {folder} does not hold {' and '.join(missing)}.", action=action)
    if (folder / MARKER).exists() and _complete(folder) is None:
        raise JarsUnavailableError(f"Jars in {folder} are not those that its {MARKER} lists.", action=action)
    for jar in jars:
        if not zipfile.is_zipfile(jar):
            raise JarsUnavailableError(f"The jar {jar} is damaged.", action=action)
    return jars if wanted.deep else [found[name] for name in wanted.needed]


def _bare(name: str, groups: Collection[str]) -> str:
    """Returns a jar's name without the group that Ivy puts before it."""
    return next((name.removeprefix(f"{group}_") for group in groups if name.startswith(f"{group}_")), name)


def _complete(folder: Path) -> list[Path] | None:
    """Returns the jars that the marker lists; None if the marker is not valid or a jar differs from it."""
    try:
        marker = json.loads((folder / MARKER).read_bytes())
        if marker["version"] != MARKER_VERSION:
            return None
        jars = []
        for listed in marker["jars"]:
            jar = folder / listed["name"]
            if jar.stat().st_size != listed["size"] or _sha256(jar) != listed["sha256"]:
                return None
            jars.append(jar)
        return jars
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _fill(cached: Path, wanted: JarSet) -> list[Path]:
    """Resolves into a folder of our own, then uses it as the cache, or that of another process that was faster."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".resolving-", dir=cached.parent))
        try:
            kept = [jar for jar in wanted.resolve(work / "ivy") if jar.name.startswith(wanted.own or "")]
            if not kept:
                what = f"Resolving {wanted.coordinates[0]} gave no jar of {wanted.what}."
                raise JarsUnavailableError(what, action=_NETWORK_ACTION)
            ready = work / "jars"
            ready.mkdir()
            _write_folder(ready, kept, wanted.coordinates)
            jars = _put_in_place(ready, cached)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise JarsUnavailableError(
            f"The jar cache {cached.parent} cannot be written: {error}.",
            action="Name a folder that can be written, on a disk with free space, with LAKESTATE_JARS_CACHE.",
        ) from error
    if jars is None:
        raise JarsUnavailableError(
            f"The jars in {cached} are damaged right after they were written.",
            action="Check the disk, or name another folder with LAKESTATE_JARS_CACHE.",
        )
    return jars


def _put_in_place(ready: Path, cached: Path) -> list[Path] | None:
    """Renames the finished folder to its place, unless a finished one is there by now."""
    while (jars := _complete(cached)) is None:
        try:
            ready.rename(cached)
        except OSError:
            if not cached.exists():
                raise
            _set_aside(cached, ready.parent)
            continue
        return _complete(cached)
    return jars


def _set_aside(cached: Path, work: Path) -> None:
    """Moves an unfinished or damaged folder out of the way; another process may do the same."""
    try:
        cached.rename(work / f"damaged-{uuid.uuid4().hex}")
    except FileNotFoundError:
        return


def _write_folder(folder: Path, jars: Iterable[Path], coordinates: Sequence[str]) -> None:
    listed = []
    for jar in sorted(jars, key=lambda jar: jar.name):
        copy = folder / jar.name
        shutil.copyfile(jar, copy)
        _sync(copy)
        listed.append({"name": copy.name, "size": copy.stat().st_size, "sha256": _sha256(copy)})
    marker = {"version": MARKER_VERSION, "coordinate": " ".join(coordinates), "jars": listed}
    unfinished = folder / f"{MARKER}.part"
    unfinished.write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
    _sync(unfinished)
    unfinished.rename(folder / MARKER)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


# ---------------------------------------------------------------------------------------------------------------------
# The download, in a process of its own: a JVM keeps the class path of its first session.

_NETWORK_ACTION = (
    "Check the network (and the proxy settings of Java), or copy the jars from a machine that has them and name "
    "their folder with LAKESTATE_JARS."
)

_BUILDER = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").appName("lakestate-jars")
for key, value in (
    ("spark.jars.ivy", sys.argv[1]),
    ("spark.ui.enabled", "false"),
    ("spark.driver.host", "127.0.0.1"),
    ("spark.driver.bindAddress", "127.0.0.1"),
):
    builder = builder.config(key, value)
"""

_CHILD = f"""{_BUILDER}
from delta import configure_spark_with_delta_pip
configure_spark_with_delta_pip(builder).getOrCreate().stop()
"""

_CHILD_ALONE = f"""{_BUILDER}
spark = builder.getOrCreate()
for coordinate in sys.argv[3:]:
    spark.sparkContext._jsc.sc().addJar(f"ivy://{{coordinate}}?transitive={{sys.argv[2]}}")
spark.stop()
"""


def _resolve_alone(coordinates: Sequence[str], ivy: Path, *, deep: bool = False) -> list[Path]:
    """Resolves artifacts, each alone, or `deep` with all that it needs."""
    return _resolved(_CHILD_ALONE, ivy, (str(deep).lower(), *coordinates), coordinates[0], 1800)


def _resolve_with_ivy(ivy: Path, timeout_s: float = 1800) -> list[Path]:
    return _resolved(_CHILD, ivy, (), coordinate(), timeout_s)


def _resolved(code: str, ivy: Path, arguments: Sequence[str], named: str, timeout_s: float) -> list[Path]:
    """Runs the code that resolves, and returns the jars."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", code, str(ivy), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"{named} was not resolved within {timeout_s:.0f} s."
        raise JarsUnavailableError(message, action=_NETWORK_ACTION) from error
    if child.returncode != 0:
        if "JAVA_GATEWAY_EXITED" in child.stderr and "resolving dependencies" not in child.stderr:
            action = "Install Java 17 or 21 and set JAVA_HOME if it is not the first `java` on PATH."
            raise JarsUnavailableError(f"{named} was not resolved: Java did not start.", action=action)
        raise JarsUnavailableError(f"{named} was not resolved: {_reason(child.stderr)}", action=_NETWORK_ACTION)
    return sorted((ivy / "jars").glob("*.jar"))


def _reason(log: str) -> str:
    """Returns the lines of Ivy's and Spark's output that name the cause."""
    marks = ("not found", "UnknownHost", "unresolved dependency", "Connection", "timed out", "Server access", "Error:")
    lines = [line.strip(" \t:") for line in log.splitlines()]
    telling = [line for line in lines if any(mark in line for mark in marks)] or [line for line in lines if line][-3:]
    return "; ".join(dict.fromkeys(telling[:4])) or "no output"


def main(names: Sequence[str] | None = None) -> int:
    """Fills the cache and prints its folders; the entry of `python -m state_engine.spark.jars [kafka …]`."""
    try:
        for name in ("", *(sys.argv[1:] if names is None else names)):
            jars = delta_jars() if not name else broker_jars() if name == "kafka-broker" else connector_jars([name])
            print(jars[0].parent)
    except JarsUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


__all__ = [
    "CONNECTORS",
    "JarsUnavailableError",
    "broker_jars",
    "cache_folder",
    "connector_jars",
    "coordinate",
    "delta_jars",
]

if __name__ == "__main__":
    sys.exit(main())
