"""Every row of every state of a golden root, as the release that wrote it read them: `rows.json` in the archive.

A later release reads the same rows: keys, values, key groups and times of last access, of both savepoints and in the
end. `position` and `seq` order the elements of a list, and only that order is compared.
"""

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from state_engine.inspect import history_at, list_jobs, read_state
from state_engine.inspect.read import known_states
from state_engine.savepoint import list_savepoints

FILE = "rows.json"


def moments_of(root: str, job: str) -> dict[str, str]:
    """Returns what to read: the savepoints by label, and the newest epoch."""
    return {saved.label: saved.savepoint_id for saved in list_savepoints(root, job)} | {"latest": "latest"}


def states_at(root: str, job: str, at: str) -> list[Any]:
    """Returns the schemas of the states that the job had."""
    return known_states(history_at(root, job, at))


def rows_of(folder: Path) -> dict[str, Any]:
    """Reads all rows of an unpacked root."""
    root = str(folder / "state")
    return {
        f"{job} {moment} {schema.uid}/{schema.name}": rows_at(root, job, at, schema)
        for job in (summary.job for summary in list_jobs(root))
        for moment, at in moments_of(root, job).items()
        for schema in states_at(root, job, at)
    }


def rows_at(root: str, job: str, at: str, schema: Any) -> list[Any]:
    """Returns the rows of one state in JSON's types; those of a list stay in order."""
    rows = read_state(root, job, schema.uid, schema.name, at=at).drop_columns(["position", "seq"]).to_pylist()
    plain = [_plain(row) for row in rows]
    is_list = schema.shape == "list"
    return sorted(plain, key=(lambda row: _text({**row, "value": 0, "last_access": 0})) if is_list else _text)


def write_rows(folder: Path) -> None:
    (folder / FILE).write_text(json.dumps(rows_of(folder), ensure_ascii=False, indent=0))


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
