"""Savepoints of a job: takes, lists, validates and disposes of them, and restores from them."""

from state_engine.savepoint.adoption import adopt, adopt_for
from state_engine.savepoint.catalogue import (
    Catalogue,
    DamagedSavepoint,
    list_savepoints,
    load_canonical,
    load_savepoint,
    read_catalogue,
    resolve_restore,
)
from state_engine.savepoint.dispose import dispose_savepoint
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.handles import Pinned, read_pinned, verify_handles
from state_engine.savepoint.holding import kept_for_start
from state_engine.savepoint.key_groups import restore_key_groups
from state_engine.savepoint.request import SavepointKind, SavepointRequest
from state_engine.savepoint.retain import Retained, retain
from state_engine.savepoint.stop import stop_with_savepoint
from state_engine.savepoint.trigger import take_savepoint, trigger_savepoint
from state_engine.savepoint.validate import Finding, ValidationReport, validate_savepoint
from state_engine.savepoint.writers import ProcessWriter, RangeWriter

__all__ = [
    "Catalogue",
    "DamagedSavepoint",
    "Finding",
    "KeyGroupRestore",
    "Pinned",
    "ProcessWriter",
    "RangeWriter",
    "Retained",
    "SavepointKind",
    "SavepointRequest",
    "ValidationReport",
    "adopt",
    "adopt_for",
    "dispose_savepoint",
    "kept_for_start",
    "list_savepoints",
    "load_canonical",
    "load_savepoint",
    "read_catalogue",
    "read_pinned",
    "resolve_restore",
    "restore_key_groups",
    "retain",
    "stop_with_savepoint",
    "take_savepoint",
    "trigger_savepoint",
    "validate_savepoint",
    "verify_handles",
]
