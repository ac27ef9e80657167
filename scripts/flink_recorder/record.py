"""Records scenarios; runs inside the environment that `record_flink_scenarios.py` made, one group a process."""

import argparse
import importlib
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from driver import Driver
from golden_file import RECORDED, encode, groups, step_to_json
from scenario import Scenario

MODES = ("process", "thread")


def record(scenario: Scenario) -> dict[str, Any]:
    """Runs a scenario in its mode and in the other; what the other does otherwise is kept beside the step."""
    recorded = Driver(scenario, scenario.mode).run()
    (other_mode,) = set(MODES) - {scenario.mode}
    head = {"about": scenario.about, "mode": scenario.mode, "key": scenario.key, "input": scenario.input}
    if scenario.input2 is not None:
        head["input2"] = scenario.input2
    head |= {"output": scenario.output, "needs": list(scenario.needs)}
    try:
        others = Driver(scenario, other_mode).run()
    except Exception as error:
        head[f"fails_in_{other_mode}_mode"] = _cause(error)
        others = recorded
    steps = []
    for step, found, other in zip(scenario.steps, recorded, others, strict=True):
        entry = {"step": step_to_json(step), **found}
        if other != found:
            entry[f"in_{other_mode}_mode"] = {
                name: other.get(name, []) for name in other | found if other.get(name) != found.get(name)
            }
        steps.append(entry)
    return {**head, "steps": steps}


def _cause(error: Exception) -> str:
    """The line of a Java error with a Python traceback in it that says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if re.match(r"([A-Za-z_.]*\.)?[A-Z]\w*(Error|Exception)\b.*: ", line)]
    return told[-1][:300] if told else next((line for line in lines[1:] if line), type(error).__name__)[:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", choices=groups())
    parser.add_argument("--only", help="names of scenarios to run and show, without writing", nargs="*")
    given = parser.parse_args()
    scenarios: list[Scenario] = importlib.import_module(f"scenarios.{given.group}").SCENARIOS
    names = [scenario.name for scenario in scenarios]
    if len(set(names)) != len(names):
        sys.exit(f"scenarios of one name in {given.group}: {names}")
    chosen = [scenario for scenario in scenarios if not given.only or scenario.name in given.only]
    recorded, failed = {}, False
    for scenario in chosen:
        print(f"{given.group}.{scenario.name}", flush=True)
        try:
            recorded[scenario.name] = record(scenario)
        except Exception as error:
            failed = True
            print("".join(str(error).splitlines(keepends=True)[-60:]))
    if failed:
        sys.exit("Nothing was written.")
    about = {"pyflink": version("apache-flink"), "java": _java(), "python": platform.python_version()}
    text = encode(about, recorded)
    if given.only:
        print(text)
        return
    RECORDED.mkdir(exist_ok=True)
    Path(RECORDED / f"{given.group}.json").write_text(text, encoding="utf-8")


def _java() -> str:
    from pyflink.java_gateway import get_gateway

    return str(get_gateway().jvm.System.getProperty("java.version"))


if __name__ == "__main__":
    main()
