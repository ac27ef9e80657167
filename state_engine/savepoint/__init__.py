"""Savepoints: pins of sealed epochs, their catalogue, and what a restore may be asked for."""

from state_engine.savepoint.catalogue import list_savepoints, load_savepoint, resolve_restore
from state_engine.savepoint.handles import Pinned, read_pinned, verify_handles
from state_engine.savepoint.native import trigger_savepoint

__all__ = [
    "Pinned",
    "list_savepoints",
    "load_savepoint",
    "read_pinned",
    "resolve_restore",
    "trigger_savepoint",
    "verify_handles",
]
