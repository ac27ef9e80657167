"""All mutants, room by room."""

from planted import backends, checkpoint, connectors, epoch, log, runtime, savepoint, serialization, spark, storage

MUTANTS = (
    *epoch.MUTANTS,
    *log.MUTANTS,
    *checkpoint.MUTANTS,
    *savepoint.MUTANTS,
    *storage.MUTANTS,
    *connectors.MUTANTS,
    *spark.MUTANTS,
    *backends.MUTANTS,
    *runtime.MUTANTS,
    *serialization.MUTANTS,
)

_FIXED = (
    "epoch/equal-incarnations-do-not-fence",
    "log/coalesced-interval-drops-deletes",
    "checkpoint/ranges-share-a-key-group",
    "savepoint/range-inside-a-range",
    "storage/fence-holds-for-its-own-version-only",
    "spark/source-files-of-the-epoch-before",
    "backends/rocksdb-token-in-a-write-of-its-own",
    "connectors/numbers-are-rounded",
    "runtime/side-output-loses-its-first-row",
    "serialization/lists-of-a-slice",
)

FIXED = tuple(mutant for mutant in MUTANTS if mutant.id in _FIXED)
"""The ten mutants that run in `.ci/run`: they are fast, and every room has at least one."""
