"""Reads and writes the files of recorded scenarios: JSON with one step a line, so that diffs are readable."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenario import Element, EndOfInput, ProcessingTime, Step, Watermark

FORMAT = "lakestate.flink-scenarios"
VERSION = 1
RECORDED = Path(__file__).parent / "recorded"
Outputs = dict[str, Any]


def step_to_json(step: Step) -> dict[str, Any]:
    """Returns a step as a file has it."""
    match step:
        case Element(row, at, number):
            return {"element": list(row), **({} if at is None else {"at": at}), **_input(number)}
        case Watermark(ms, number):
            return {"watermark": ms, **_input(number)}
        case ProcessingTime(ms):
            return {"processing_time": ms}
        case EndOfInput():
            return {"end_of_input": True}


def encode(about: Mapping[str, str], scenarios: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the text of a file.

    Args:
        about: What recorded the file: versions and mode.
        scenarios: By name: `about`, columns, and `steps`, each with `step` and its results.
    """
    head = {"format": FORMAT, "version": VERSION, **about}
    lines = ["{", *(f" {_line(name)}: {_line(value)}," for name, value in head.items()), ' "scenarios": {']
    for number, (name, scenario) in enumerate(scenarios.items()):
        lines.append(f"  {_line(name)}: {{")
        rest = [(key, value) for key, value in scenario.items() if key != "steps"]
        lines += [f"   {_line(key)}: {_line(value)}," for key, value in rest]
        lines.append('   "steps": [')
        lines.append(",\n".join(f"    {_line(step)}" for step in scenario["steps"]))
        lines += ["   ]", "  }" + ("," if number + 1 < len(scenarios) else "")]
    return "\n".join([*lines, " }", "}", ""])


def load(group: str) -> dict[str, Any]:
    """Returns the recorded scenarios of a group by name.

    Raises:
        ValueError: The file has another format or version.
    """
    document = json.loads((RECORDED / f"{group}.json").read_text(encoding="utf-8"))
    if (document["format"], document["version"]) != (FORMAT, VERSION):
        raise ValueError(f"{group}.json is {document['format']} version {document['version']}; record it again")
    scenarios: dict[str, Any] = document["scenarios"]
    return scenarios


def groups() -> list[str]:
    """Returns the names of all modules of scenarios."""
    folder = Path(__file__).parent / "scenarios"
    return sorted(file.stem for file in folder.glob("*.py"))


def by_key(rows: Sequence[Any]) -> list[Any]:
    """Returns rows key by key, in the order that they have within a key; the key is the first column."""
    return sorted(rows, key=lambda row: json.dumps(row[0]))


def _input(number: int) -> dict[str, int]:
    return {} if number == 1 else {"input": number}


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
