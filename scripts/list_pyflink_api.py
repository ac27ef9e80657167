"""Lists PyFlink's public API, as far as it concerns DataStream programs, for `tests/flink/test_pyflink_api.py`.

It reads PyFlink's source, and runs nothing of it: `python scripts/list_pyflink_api.py <folder of the package pyflink>`
prints what stands in `tests/flink/pyflink_api.txt`. What only hands Java objects on is left out: methods with `java`
in their names, parameters that begin with `j_`.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

COMMON = (
    *("completable_future", "configuration", "job_client", "job_execution_result", "job_status", "restart_strategy"),
    *("time", "typeinfo", "types", "watermark_strategy"),
)
DATASTREAM = (
    *("checkpoint_config", "checkpoint_storage", "checkpointing_mode", "data_stream", "execution_mode"),
    *("externalized_checkpoint_retention", "functions", "output_tag", "state", "state_backend"),
    *("stream_execution_environment", "time_domain", "timerservice", "window"),
)
MODULES = [f"common.{name}" for name in COMMON] + [f"datastream.{name}" for name in DATASTREAM]
OPERATORS = {"__iter__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__len__"}


def signature(function: ast.FunctionDef) -> str:
    """Returns a method's parameters without types, with defaults."""
    arguments = function.args
    shown = [argument.arg for argument in arguments.args]
    for place, default in enumerate(reversed(arguments.defaults), 1):
        shown[-place] += f"={ast.unparse(default)}"
    if arguments.vararg:
        shown.append(f"*{arguments.vararg.arg}")
    return ", ".join(part for part in shown if part != "self" and not part.startswith("j_"))


def members(node: ast.ClassDef, name: str) -> Iterator[str]:
    """Yields a class, its public constants and methods, and those of its public inner classes."""
    yield name
    found: dict[str, str] = {}
    for part in node.body:
        if isinstance(part, ast.ClassDef) and not part.name.startswith("_"):
            yield from members(part, f"{name}.{part.name}")
        elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            constant = part.targets[0].id
            if constant.isupper() or any(getattr(base, "id", "") == "Enum" for base in node.bases):
                found[constant] = f"{name}.{constant}"
        elif isinstance(part, ast.FunctionDef):
            public = not part.name.startswith("_") or part.name in OPERATORS
            if public and "java" not in part.name:
                found[part.name] = f"{name}.{part.name}({signature(part)})"  # of overloads the last one
    yield from sorted(found.values())


def main(package: Path) -> None:
    """Prints the list."""
    for module in MODULES:
        tree = ast.parse(package.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
        offered = next(
            (
                ast.literal_eval(node.value)
                for node in tree.body
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
            ),
            [],
        )
        print(f"# pyflink.{module}")
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and (node.name in offered or (not offered and node.name[0] != "_")):
                print(*members(node, node.name), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
