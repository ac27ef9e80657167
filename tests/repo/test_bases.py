"""A base class has at least two subclasses, unless it is used by itself: else it belongs into its only subclass.

Exempt are interfaces that authors implement or see (`api`), PyFlink's shapes (`flink`), errors and suites of tests.
"""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "state_engine", ROOT / "platform" / "lakestate"]
OTHERS = ("api", "flink", "testing", "errors.py")


def trees(folder: Path) -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text()) for file in folder.rglob("*.py")}


def name_of(base: ast.expr) -> str:
    base = base.value if isinstance(base, ast.Subscript) else base
    return base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""


def used_as_values(tree: ast.Module) -> set[str]:
    """Returns the names that code calls or passes on: not those of bases, annotations, checks of classes or exports."""
    passive: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.ClassDef):
            parts = list(node.bases)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [node.returns]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "cast"):
            parts = list(node.args)
        for part in parts:
            passive.update(id(inner) for inner in ast.walk(part) if part is not None) if part is not None else None
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in passive}


def only_bases(parsed: dict[Path, ast.Module], root: Path) -> list[str]:
    """Returns the classes that have only one subclass and no other use."""
    subclasses, homes, used = defaultdict(set), {}, set()
    for file, tree in parsed.items():
        used |= used_as_values(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    subclasses[name_of(base)].add(node.name)
                if file.relative_to(root).parts[0] not in OTHERS:
                    homes[node.name] = file
    return sorted(name for name in homes if len(subclasses[name]) == 1 and name not in used)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_base_class_is_there_for_one_subclass(package: Path) -> None:
    assert only_bases(trees(package), package) == []


def test_one_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "some.py").write_text(
        "class Base: ...\nclass Only(Base): ...\nclass Two: ...\nclass A(Two): ...\nclass B(Two): ...\n"
        "class Used: ...\nclass C(Used): ...\nmade = Used()\ndef f(x: Base) -> Base: return x\n"
    )
    assert only_bases(trees(tmp_path), tmp_path) == ["Base"]
