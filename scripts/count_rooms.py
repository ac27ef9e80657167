"""Prints how large the rooms are: lines, files and classes of each, and the circles among their imports.

    python scripts/count_rooms.py [FOLDER]

Imports inside functions, and those for types alone, count: a reader follows them too.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[1]


def modules_of(package: Path) -> dict[str, Path]:
    """Returns the files of a package by dotted name; a package's own is that of its `__init__.py`."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports_of(package: Path) -> dict[str, set[str]]:
    """Returns for each module of a package which others of it it imports."""
    modules = modules_of(package)
    return {name: set(_imported(ast.parse(file.read_text()), modules)) - {name} for name, file in modules.items()}


def _imported(tree: ast.AST, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            of_package = [name for alias in node.names if (name := f"{node.module}.{alias.name}") in modules]
            yield from of_package or [node.module]


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Returns the groups of modules of which each imports each other, directly or not (Tarjan), sorted."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    counter = count()

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = next(counter)
        stack.append(name)
        for other in sorted(imports[name]):
            if other not in numbers:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], numbers[other])
        if lowest[name] == numbers[name]:
            at = stack.index(name)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in imports:
        if name not in numbers:
            visit(name)
    return sorted(found)


def main() -> None:
    """Prints the table and the circles of a package, `state_engine` by default."""
    package = ROOT / (sys.argv[1] if len(sys.argv) > 1 else "state_engine")
    rooms: dict[str, list[int]] = {}
    for name, file in modules_of(package).items():
        text = file.read_text()
        room = rooms.setdefault(".".join(name.split(".")[:2]), [0, 0, 0])
        room[0] += len(text.splitlines())
        room[1] += 1
        room[2] += sum(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(text)))
    print(f"{'room':36s} {'lines':>6s} {'files':>5s} {'classes':>7s}")
    for name, (lines, files, classes) in sorted(rooms.items()):
        print(f"{name:36s} {lines:6d} {files:5d} {classes:7d}")
    print()
    for circle in circles(imports_of(package)):
        print(f"circle of {len(circle)}: {', '.join(circle)}")


if __name__ == "__main__":
    main()
