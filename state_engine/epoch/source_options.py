"""Lists which options of a source may change between two starts. One table per format; pure.

The facts come from the documentation of the sources of Spark, Delta, Kafka and Iceberg. `docs/seeding.md` shows the
same table, and a test compares the two.
"""

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class OptionClass(StrEnum):
    """What a changed option means for records that are read from a position."""

    FREE = "may change freely"
    INERT = "has no effect once there is a position"
    ASK = "may change which records come, or how they are read"


class SourceFormat(NamedTuple):
    """The options of one source format; a trailing `*` stands for any ending.

    Attributes:
        name: Heading of its row in the page.
        kinds: Spark's names of it, in lower case.
        free: They change the speed, or how much the source tolerates, not which records come.
        inert: They set where a new stream begins, or have no effect in a stream.
        ask: They may change which records come or how they are read. Every option that is not named is one of these.
        defaults: Options that are recorded also when they are not set. If a recorded source lacks one of them, an
            earlier release has recorded it, and the value is unknown.
    """

    name: str
    kinds: tuple[str, ...]
    free: tuple[str, ...] = ()
    inert: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    defaults: Mapping[str, str] = {}

    @property
    def classes(self) -> tuple[tuple[OptionClass, tuple[str, ...]], ...]:
        """The options by class."""
        return (OptionClass.FREE, self.free), (OptionClass.INERT, self.inert), (OptionClass.ASK, self.ask)


ANY = SourceFormat(
    name="every format",
    kinds=(),
    free=(
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
    ),
    inert=("starting*",),
)
FILES = SourceFormat(
    name="files",
    kinds=("parquet", "json", "csv", "text", "orc", "avro", "xml", "binaryfile"),
    free=("maxCachedFiles", "discardCachedInputRatio", "ignoreMissingFiles", "ignoreCorruptFiles"),
    inert=("cleanSource", "sourceArchiveDir"),
    ask=(
        "schema",
        "mergeSchema",
        "header",
        "sep",
        "mode",
        "multiLine",
        "encoding",
        "basePath",
        "pathGlobFilter",
        "recursiveFileLookup",
        "fileNameOnly",
        "latestFirst",
        "maxFileAge",
    ),
    defaults={"schema": ""},  # the schema that the job gives, which is not an option
)
DELTA = SourceFormat(
    name="Delta",
    kinds=("delta",),
    free=("skipChangeCommits", "ignoreDeletes", "ignoreFileDeletion", "failOnDataLoss"),
    ask=(
        "readChangeFeed",
        "readChangeData",
        "ignoreChanges",
        "excludeRegex",
        "withEventTimeOrder",
        "schemaTrackingLocation",
        "schemaLocation",
    ),
)
KAFKA = SourceFormat(
    name="Kafka",
    kinds=("kafka",),
    free=(
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.*",
        "kafka.*",
    ),
    ask=(
        "assign",
        "subscribe",
        "subscribePattern",
        "includeHeaders",
        "kafka.isolation.level",
        "kafka.exclude.internal.topics",
    ),
    defaults={"kafka.isolation.level": "read_uncommitted", "kafka.exclude.internal.topics": "true"},
)
RATE_MICRO_BATCH = SourceFormat(
    name="rate-micro-batch",
    kinds=("rate-micro-batch",),
    free=("numPartitions",),
    inert=("startTimestamp",),
    ask=("rowsPerBatch", "advanceMillisPerBatch"),
)
RATE = SourceFormat(name="rate", kinds=("rate",), free=("rowsPerSecond", "rampUpTime", "numPartitions"))
SOCKET = SourceFormat(name="socket", kinds=("socket",), ask=("host", "port", "includeTimestamp"))
ICEBERG = SourceFormat(
    name="Iceberg",
    kinds=("iceberg",),
    free=(
        "streaming-max-files-per-micro-batch",
        "streaming-max-rows-per-micro-batch",
        "streaming-skip-delete-snapshots",
        "streaming-skip-overwrite-snapshots",
        "split-size",
        "lookback",
        "file-open-cost",
        "vectorization-enabled",
        "batch-size",
        "locality",
    ),
    inert=("stream-from-timestamp",),
    ask=("branch", "tag"),
)
UNKNOWN = SourceFormat(name="others", kinds=())

FORMATS = (ANY, FILES, DELTA, KAFKA, RATE_MICRO_BATCH, RATE, SOCKET, ICEBERG, UNKNOWN)

_CLASSES = {  # Spark's name of a format that was given by the name of its class
    "parquetfileformat": "parquet",
    "jsonfileformat": "json",
    "csvfileformat": "csv",
    "textfileformat": "text",
    "orcfileformat": "orc",
    "avrofileformat": "avro",
    "xmlfileformat": "xml",
    "binaryfileformat": "binaryfile",
    "deltadatasource": "delta",
    "kafkasourceprovider": "kafka",
    "ratestreamprovider": "rate",
    "ratepermicrobatchprovider": "rate-micro-batch",
    "textsocketsourceprovider": "socket",
}
_SECRET = re.compile(r"(?i)(secret|password|token|credential|jaas|sasl|access.?key|private)")
_CONNECTION = re.compile(r"(?i)connection.?string")
_INSIDE = re.compile(r"(?i)((?:password|passwd|pwd|secret|token|sig|access_?key|account_?key)\s*=\s*)[^;&\s\"',]+")
_USER = re.compile(r"(://[^/@:]*:)[^/@]+@")
_DIGEST = "sha256:"


def format_name(kind: str) -> str:
    """Returns one name for all spellings of a format: `JSON` and the name of its class are `json`."""
    lower = kind.lower()
    return _CLASSES.get(lower.rpartition(".")[2], lower)


def format_of(kind: str) -> SourceFormat:
    """Returns the row of a kind; `UNKNOWN` for one that is not in the table."""
    name = format_name(kind)
    return next((row for row in FORMATS if name in row.kinds), UNKNOWN)


def class_of(kind: str, option: str) -> OptionClass:
    """Returns what a change of an option means. A full name takes precedence over one with a `*`."""
    named = {
        name.lower(): option_class
        for row in (ANY, format_of(kind))
        for option_class, names in row.classes
        for name in names
    }
    option = option.lower()
    beginnings = (
        option_class for name, option_class in named.items() if name.endswith("*") and option.startswith(name[:-1])
    )
    return named.get(option) or next(beginnings, OptionClass.ASK)


def spelled(kind: str, option: str) -> str:
    """Returns an option as documentation spells it; Spark gives names in lower case."""
    row = format_of(kind)
    names = (*row.free, *row.inert, *row.ask, *ANY.free)
    return next((name for name in names if name.lower() == option.lower()), option)


def recorded(kind: str, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options to compare with those of a later start: names in lower case, sorted; no secrets.

    Passwords and the like are left out, so that they may be renewed. A connection string is kept as a digest.
    """
    row = format_of(kind)
    known = {name.lower(): value for name, value in row.defaults.items()}
    known |= {name.lower(): value for name, value in options.items()}
    return {
        name: _digested(value) if _CONNECTION.search(name) else value
        for name, value in sorted(known.items())
        if class_of(kind, name) is OptionClass.ASK and not _SECRET.search(name)
    }


def _digested(value: str) -> str:
    return value if value.startswith(_DIGEST) else _DIGEST + hashlib.sha256(value.encode()).hexdigest()[:32]


def shown(option: str, value: str) -> str:
    """Returns the value of an option for a message, without secrets."""
    if _SECRET.search(option) or _CONNECTION.search(option):
        return "(not shown)"
    return _USER.sub(r"\1…@", _INSIDE.sub(r"\1…", value))


__all__ = [
    "ANY",
    "DELTA",
    "FILES",
    "FORMATS",
    "UNKNOWN",
    "OptionClass",
    "SourceFormat",
    "class_of",
    "format_name",
    "format_of",
    "recorded",
    "shown",
    "spelled",
]
