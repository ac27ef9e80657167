"""A planted bug: where it goes, what it breaks, and the tests that must fail because of it."""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOMS = (
    "epoch",
    "log",
    "checkpoint",
    "savepoint",
    "storage",
    "spark",
    "backends",
    "runtime",
    "serialization",
    "connectors",
)
"""The folders of `state_engine` in which a bug can lose, double or change a row."""


class DoesNotApplyError(Exception):
    """The code that a mutant changes is gone, occurs twice, or would no longer compile."""


@dataclass(frozen=True)
class Mutant:
    """One textual change of one function.

    Args:
        name: A few words with hyphens.
        module: Dotted name of the module that is changed.
        function: Qualified name of the function or class, such as `EpochDriver._seal`.
        old: Text that the function contains exactly once.
        new: What replaces it.
        breaks: One sentence: what goes wrong for a job.
        killers: Files or node ids of tests; at least one of these tests fails.
        equivalent: Why no test can tell the mutant from the original; such a mutant is not run.
    """

    name: str
    module: str
    function: str
    old: str
    new: str
    breaks: str
    killers: tuple[str, ...] = ()
    equivalent: str = ""

    @property
    def room(self) -> str:
        """The folder of `state_engine` that the module is in."""
        return self.module.split(".")[1]

    @property
    def id(self) -> str:
        """Room and name."""
        return f"{self.room}/{self.name}"

    @property
    def path(self) -> Path:
        """The module's file, relative to the root of the checkout."""
        return Path(*self.module.split(".")).with_suffix(".py")

    @property
    def files(self) -> set[str]:
        """The files on which it depends whether the mutant dies: its module and its tests."""
        return {str(self.path), *(killer.partition("::")[0] for killer in self.killers)}

    def plant(self, source: str) -> str:
        """Returns the text of the module with the bug in it.

        Raises:
            DoesNotApplyError: The module does not define the function exactly once, the function does not contain the
                text exactly once, the result does not compile, or the change does not change the code.
        """
        lines = source.splitlines(keepends=True)
        nodes = [node for name, node in _definitions(ast.parse(source)) if name == self.function]
        if len(nodes) != 1:
            raise DoesNotApplyError(f"{self.id}: {self.module} defines {self.function} {len(nodes)} times, not once")
        first, last = nodes[0].lineno - 1, nodes[0].end_lineno
        function = "".join(lines[first:last])
        if (count := function.count(self.old)) != 1:
            raise DoesNotApplyError(f"{self.id}: {self.function} contains {self.old!r} {count} times, not once")
        planted = "".join(lines[:first]) + function.replace(self.old, self.new) + "".join(lines[last:])
        try:
            tree = ast.parse(planted)
        except SyntaxError as error:
            raise DoesNotApplyError(f"{self.id}: the module does not compile: {error}") from error
        if ast.dump(tree) == ast.dump(ast.parse(source)):
            raise DoesNotApplyError(f"{self.id}: the change does not change the code")
        return planted


Definition = ast.FunctionDef | ast.ClassDef


def _definitions(node: ast.AST, prefix: str = "") -> list[tuple[str, Definition]]:
    """Lists functions and classes below a node, with qualified names without `<locals>`."""
    definitions: list[tuple[str, Definition]] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            name = f"{prefix}{child.name}"
            definitions += [(name, child), *_definitions(child, f"{name}.")]
        else:
            definitions += _definitions(child, prefix)
    return definitions
