"""Every error of Lakestate, as one tree (the one of Delta's jars, `JarsUnavailableError`, is beside them).

```
LakestateError
├── JobDefinitionError            refused when the job is built; nothing ran
│   ├── UnsupportedTypeError
│   ├── UnsupportedAddressError
│   ├── DuplicateUidError
│   ├── DuplicateStateError
│   ├── UnsupportedUpstreamError
│   ├── UnsupportedTopologyError
│   ├── UnsupportedMethodError
│   └── UnsupportedNameError
├── RestoreError                  refused when the job starts; nothing was written
│   ├── KeyTypeChangedError
│   ├── StateTypeChangedError
│   ├── TtlTimeChangedError
│   ├── MaxParallelismChangedError
│   ├── SourcesChangedError
│   ├── SourceFileMissingError
│   ├── UnknownOperatorError
│   ├── UnreadStateError
│   ├── StateReturnsError
│   ├── WindowsChangedError
│   ├── GeneratedUidError
│   ├── NothingToRestoreError
│   ├── SinkRewindError
│   └── RestoreCancelledError
├── StorageError
│   ├── NotFoundError
│   ├── AlreadyExistsError
│   ├── NotWritableError
│   ├── StateTooLargeError
│   └── UnsupportedStorageError
├── CorruptionError               durable bytes are not what they claim to be
│   ├── DamagedManifestError
│   ├── DamagedFileError
│   ├── MissingFileError
│   └── UnsupportedVersionError
├── EpochError                    the epoch was not sealed; nothing advanced
│   ├── UserFunctionError
│   ├── OutputTypeError
│   ├── StateMigrationError
│   ├── InconsistentAttemptsError
│   ├── MissingAckError
│   ├── ReadOnlyStateError
│   ├── BroadcastDivergenceError
│   ├── RawStateError
│   ├── LocalStateError
│   └── StopRequestedError
├── MissingExtraError             a package that an extra brings is not installed
├── YearOutOfRangeError           Python has no date for a value of a column
├── FencedError                   another driver owns the job
├── JobAlreadyRunningError        another process of this machine holds the job; nothing was begun
├── SparkLostError                the Spark session of a running job was stopped, or its JVM has ended
├── SessionError                  the Spark session, or its executors, cannot run the job
├── SourceUnavailableError        a source did not answer whether it still has what a position needs
├── SinkError
│   └── SinkAheadError            its table has output that the job's log does not know
├── CheckpointFailedError         one checkpoint that a caller waits for failed
├── CheckpointFailuresError       too many checkpoints in a row failed
├── CondemnedError                files that must be kept are being removed
├── EventTimeError                a record of a stream with event time has none
├── RescaleError                  a running job was not rescaled
├── RoutingError                  a record or its state is at the wrong subtask
└── SavepointError
```

Each message says what happened and to what; `action` says what the reader can do about it. Both can always be encoded,
whatever names, paths and values they quote.
"""

from state_engine.text import plain


class LakestateError(Exception):
    """Base of all errors of Lakestate.

    Args:
        message: What happened, and to what.
        action: What the operator or author should do now.
        operator: Uid of the operator that failed; empty if no operator failed.
        key: The key that it was processing, as text; empty if there was none, or if it must not be shown.
    """

    def __init__(self, message: str, *, action: str = "", operator: str = "", key: str = "") -> None:
        self.message = plain(message)
        self.action = plain(action)
        self.operator = plain(operator)
        self.key = plain(key)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} What to do: {self.action}" if self.action else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return rebuilt, (type(self), self.message, self.action, self.operator, self.key)


def rebuilt(kind: type[LakestateError], message: str, action: str, operator: str, key: str) -> LakestateError:
    """Returns an error of a class from its fields, as another process sent them."""
    error = kind(message, action=action)
    error.operator, error.key = operator, key
    return error


class JobDefinitionError(LakestateError):
    """The job was refused when it was built; nothing ran."""


class UnsupportedTypeError(JobDefinitionError):
    """A type that state, keys or outputs cannot have."""


class UnsupportedAddressError(JobDefinitionError):
    """An address of a state root, table or savepoint that names another place than it seems."""


class DuplicateUidError(JobDefinitionError):
    """Two operators, or two sinks, carry one uid."""


class DuplicateStateError(JobDefinitionError):
    """One state name is used with two types or two kinds of state in one operator."""


class UnsupportedUpstreamError(JobDefinitionError):
    """The Spark plan upstream of the job has state or randomness that Lakestate does not restore."""


class UnsupportedTopologyError(JobDefinitionError):
    """The graph has a shape that one epoch cannot run."""


class UnsupportedMethodError(JobDefinitionError, AttributeError):
    """A method that PyFlink's class of the same name has, and ours does not."""


class UnsupportedNameError(JobDefinitionError, ImportError):
    """A name that PyFlink has, and Lakestate does not."""


class RestoreError(LakestateError):
    """A start was refused; nothing was written."""


class KeyTypeChangedError(RestoreError):
    """The key of an operator has other columns or types than its state was written with."""


class StateTypeChangedError(RestoreError):
    """A state has another type than it was written with."""


class TtlTimeChangedError(RestoreError):
    """A state's time to live goes by another time than its rows were stamped with."""


class MaxParallelismChangedError(RestoreError):
    """Another number of key groups than the state was written with."""


class SourcesChangedError(RestoreError):
    """Kind, path, order or options of the sources differ from those of the manifest."""


class SourceFileMissingError(RestoreError):
    """Input that the job still has to read, or must recognise, is gone."""


class SourcePositionLostError(RestoreError):
    """A source no longer has what a position needs: a topic or its records are gone, or count something else."""


class SessionError(LakestateError):
    """A Spark session cannot run a job: it is another one than was wanted, or its executors lack our code."""


class SourceUnavailableError(LakestateError):
    """A source did not answer whether it still has what a position needs."""


class UnknownOperatorError(RestoreError):
    """State of an operator that the job no longer has."""


class UnreadStateError(RestoreError):
    """The log has state that the job's code does not read, and the start was requested to be strict."""


class StateReturnsError(RestoreError):
    """An operator that an earlier release no longer had is back, and its old state still exists."""


class WindowsChangedError(RestoreError):
    """An operator has other windows than those that are open, or is without windows now."""


class GeneratedUidError(RestoreError):
    """An operator without a uid is named after its place, and the places have changed."""


class NothingToRestoreError(RestoreError):
    """The named savepoint, checkpoint or epoch does not exist."""


class SinkRewindError(RestoreError):
    """A sink cannot be rewound to the restored epoch, or does not exist."""


class RestoreCancelledError(RestoreError):
    """The caller cancelled the restore before it was sealed."""


class StorageError(LakestateError):
    """Bytes could not be read or written."""


class NotFoundError(StorageError):
    """No object exists at this path."""


class AlreadyExistsError(StorageError):
    """An object exists at this path already."""


class NotWritableError(StorageError):
    """The state root cannot be written."""


class StateTooLargeError(StorageError):
    """A state has more bytes than its checkpoint storage takes."""


class UnsupportedStorageError(StorageError):
    """The storage lacks something that a state root needs."""


class CorruptionError(LakestateError):
    """Durable bytes are not what they claim to be."""


class DamagedManifestError(CorruptionError):
    """An epoch manifest fails its checksum or breaks the chain."""


class DamagedFileError(CorruptionError):
    """A state or output file fails its length or checksum."""


class MissingFileError(CorruptionError):
    """A file that a manifest names, or that Spark must have written, is gone."""


class UnsupportedVersionError(CorruptionError):
    """A file was written in a format version that this release cannot read."""


class EpochError(LakestateError):
    """An epoch was not sealed; no position advanced."""


class UserFunctionError(EpochError):
    """The author's function raised; operator, key and record are named."""


class OutputTypeError(EpochError):
    """A function returned something that its declared output type does not admit."""


class StateMigrationError(EpochError):
    """The author's function that converts values of an earlier type raised, or returned a value of another type."""


class InconsistentAttemptsError(EpochError):
    """Downstream subtasks read different attempts of one upstream subtask."""


class MissingAckError(EpochError):
    """A subtask sent no barrier."""


class LocalStateError(EpochError):
    """A worker's local database cannot be used; it is discarded, and the epoch runs again."""


class ReadOnlyStateError(EpochError):
    """A function wrote broadcast state where it may only read it."""


class BroadcastDivergenceError(EpochError):
    """Subtasks changed their copies of a broadcast state in different ways."""


class RawStateError(EpochError):
    """A function wrote raw state wrongly: a foreign key group, a key group twice, a closed stream, or too much."""


class StopRequestedError(EpochError):
    """The job is stopping; the batch was refused before any work."""


class FencedError(LakestateError):
    """Another driver owns the job."""


class JobAlreadyRunningError(LakestateError):
    """Another process of this machine holds the job already; nothing was begun."""


class SparkLostError(LakestateError):
    """The Spark session of a running job was stopped, or its JVM has ended; every sealed epoch is kept."""


class RoutingError(LakestateError):
    """A record or its state is at a subtask that does not own its key group."""


class MissingExtraError(LakestateError):
    """A package that only an extra brings is not installed; the message names the extra."""


class YearOutOfRangeError(LakestateError):
    """A date or timestamp of a column is outside the years 1 to 9999, which are all that Python has."""


class EventTimeError(LakestateError):
    """A record of a stream with event time has none."""


class SinkError(LakestateError):
    """Sealed output could not be committed to its sink, or a start found that the sink is gone or cannot take it."""


class SinkAheadError(SinkError):
    """A sink's table has output that the job's log does not know: another log wrote it, or this one has lost epochs."""


class CheckpointFailedError(LakestateError):
    """A checkpoint on demand failed; every sealed epoch is kept."""


class CheckpointFailuresError(LakestateError):
    """More checkpoints in a row failed than the job tolerates; every sealed epoch is kept."""


class RescaleError(LakestateError):
    """A running job was not rescaled; it continues as it was."""


class CondemnedError(LakestateError):
    """Files that a savepoint, a restore or a reader needs are being removed by retention."""


class SavepointError(LakestateError):
    """A savepoint could not be taken, read or disposed."""


__all__ = sorted(
    name for name, value in globals().items() if isinstance(value, type) and issubclass(value, LakestateError)
)
