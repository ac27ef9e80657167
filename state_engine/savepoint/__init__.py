"""Savepoints: pins of sealed epochs, their catalogue, and what a restore may be asked for."""

from state_engine.savepoint.catalogue import list_savepoints, load_savepoint, resolve_restore
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.handles import Pinned, read_pinned, verify_handles
from state_engine.savepoint.key_groups import restore_key_groups
from state_engine.savepoint.native import trigger_savepoint

__all__ = [
    "KeyGroupRestore",
    "Pinned",
    "list_savepoints",
    "load_savepoint",
    "read_pinned",
    "resolve_restore",
    "restore_key_groups",
    "trigger_savepoint",
    "verify_handles",
]
