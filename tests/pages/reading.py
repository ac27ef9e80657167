"""Reads a page as its reader would: types each block, from top to bottom, in an empty folder."""

import ast
import configparser
import contextlib
import inspect
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tokenize
import tomllib
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from blocks import ROOT, Block
from shell import Line, lakestate, lines_of

_MAKES_FILES = {"cat", "cp", "echo", "ls", "mkdir", "touch"}
_NEEDS_A_PROCESS = {"cancel", "checkpoint", "demo", "down", "operation", "rescale", "run", "start", "stop", "up"}
_VARIES = {"B", "KiB", "MiB", "RUNNING", "d", "h", "min", "ms", "s"}  # units, and what a process answers


class WrongExampleError(Exception):
    """An example does not do what its page says."""


class Reader:
    """Somebody who types the blocks of one page.

    Args:
        page: The page, below the root.
        folder: The working directory.
        given: Names that the page takes as given; those that its blocks define are added.
        fixture: Returns a fixture of pytest, for tests on the page that have parameters.
    """

    def __init__(
        self, page: str, folder: Path, given: dict[str, Any], fixture: Callable[[str], Any] | None = None
    ) -> None:
        self.page = page
        self.folder = folder
        self.given = given
        self.fixture = fixture or given.__getitem__
        self.main = types.ModuleType("__main__")
        self.names = vars(self.main)
        self.names.update(given)
        self._printed = ""

    def read(self, blocks: Sequence[Block]) -> None:
        """Types every block.

        Raises:
            WrongExampleError: Something else happens than what the page says. Other errors are those of the example.
        """
        above: Block | None = None
        try:
            for block in blocks:
                if self._printed and above is not None and block.language == "text" and block.heading == above.heading:
                    _compare(block, self._printed)
                self._printed = ""
                if block.title.endswith((".py", ".toml", ".yaml", ".sql", ".json")):
                    self._save(block)
                typed = TYPED.get(block.language)
                if typed is not None:
                    typed(self, block)
                above = block
        finally:
            self._forget_files_of_the_page()
        self.given.update(self.names)

    def _save(self, block: Block) -> None:
        """Saves a block as the file of its title, which other blocks may import or read."""
        file = self.folder / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)

    def _forget_files_of_the_page(self) -> None:
        """Drops modules that the page has saved and imported: another page may have files of the same names."""
        for name, module in [*sys.modules.items()]:
            if (getattr(module, "__file__", None) or "").startswith(f"{self.folder}/"):
                del sys.modules[name]

    def _type_python(self, block: Block) -> None:
        tree = ast.parse(block.text, self._file())
        ast.increment_lineno(tree, block.line - 1)
        before = dict(self.names)
        printed = io.StringIO()
        with self._as_main(), contextlib.redirect_stdout(printed):
            shown = _shown_values(block)
            for statement in tree.body:
                self._execute(statement, shown)
            for name, test in [*self.names.items()]:
                if name.startswith("test_") and callable(test) and before.get(name) is not test:
                    test(**{name: self.fixture(name) for name in inspect.signature(test).parameters})
        self._printed = printed.getvalue()

    def _execute(self, statement: ast.stmt, shown: Mapping[int, Any]) -> None:
        """Executes a statement; a value in a comment behind an expression is what the expression must have."""
        file = self._file()
        if isinstance(statement, ast.Expr) and statement.end_lineno in shown:
            value = eval(compile(ast.Expression(statement.value), file, "eval"), self.names)
            if value != shown[statement.end_lineno]:
                said = f"{self.page}:{statement.lineno}: the value is {value!r}, not {shown[statement.end_lineno]!r}"
                raise WrongExampleError(said)
        else:
            exec(compile(ast.Module([statement], []), file, "exec"), self.names)

    def _file(self) -> str:
        """Returns a name under which tracebacks find the page's lines."""
        file = str(ROOT / self.page)
        linecache.checkcache(file)
        return file

    @contextlib.contextmanager
    def _as_main(self) -> Any:
        """Lets classes of the page be those of the program, which Spark's workers get by value."""
        real, path = sys.modules["__main__"], [*sys.path]
        sys.modules["__main__"] = self.main
        sys.path.insert(0, str(self.folder))
        try:
            yield
        finally:
            sys.modules["__main__"], sys.path[:] = real, path

    def _type_commands(self, block: Block) -> None:
        """Runs the commands that make files, and those of `lakestate` that read or write a state root that exists."""
        for line in lines_of(block):
            programs = {Path(words[0]).name for words in line.commands}
            if programs and programs <= _MAKES_FILES:
                subprocess.run(["/bin/sh", "-euc", line.text], cwd=self.folder, check=True, timeout=30)
            for words in line.commands:
                if Path(words[0]).name == "lakestate" and _can_run(words, self.folder):
                    self._run(line, words)

    def _run(self, line: Line, words: list[str]) -> None:
        from click.testing import CliRunner

        done = CliRunner().invoke(lakestate(), words[1:])
        if done.exit_code != 0:
            error = done.exception if not isinstance(done.exception, SystemExit) else None
            raise WrongExampleError(f"{self.page}:{line.number}: {' '.join(words)}: {done.output}") from error
        self.names.setdefault("commands_of_page", {})[" ".join(words)] = done.output
        if missing := words_of(line.output) - words_of(done.output):
            raise WrongExampleError(
                f"{self.page}:{line.number}: {' '.join(words)} does not print {sorted(missing)}, but:\n{done.output}"
            )

    def _type_sql(self, block: Block) -> None:
        """Runs a statement by the page's `run_sql_of_page`: only that knows its tables, and what `…` stands for."""
        run = self.names.get("run_sql_of_page")
        if run is None:
            raise WrongExampleError(f"{block.place}: tests/pages/given/{self.page} has no `run_sql_of_page`")
        run(block.text)

    def _type_yaml(self, block: Block) -> None:
        for document in yaml.safe_load_all(block.text):
            if isinstance(document, dict) and "type" in document and "attributes" in document:
                variables = {name: str(self.folder) for name in re.findall(r"{{\s*env\.(\w+)", block.text)}
                with mock.patch.dict(os.environ, variables):
                    load_component(block.text)


def _compare(block: Block, printed: str) -> None:
    """Compares what a block printed with what the page shows below it; `…` stands for anything."""
    parts = [re.escape(part) for part in _without_trailing_spaces(block.text).split("…")]
    if not re.fullmatch(".*".join(parts), _without_trailing_spaces(printed), re.DOTALL):
        raise WrongExampleError(f"{block.place}: the block above it prints\n{printed}")


def _without_trailing_spaces(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _shown_values(block: Block) -> dict[int, Any]:
    """Returns the values in comments that are nothing but a value, by their line of the page."""
    shown = {}
    for token in tokenize.generate_tokens(io.StringIO(block.text).readline):
        if token.type == tokenize.COMMENT:
            with contextlib.suppress(SyntaxError, ValueError):
                shown[token.start[0] + block.line - 1] = ast.literal_eval(token.string.lstrip("# "))
    return shown


def _can_run(words: list[str], folder: Path) -> bool:
    """Returns whether a command needs nothing but a state root, and the folder has this one."""
    root = words[words.index("--root") + 1] if "--root" in words else os.environ.get("LAKESTATE_ROOT", "")
    return words[1] not in _NEEDS_A_PROCESS and bool(root) and (folder / root).is_dir()


def words_of(output: str) -> set[str]:
    """Returns the words that a command prints in every run: no numbers, times, ids, nor plurals."""
    plain = re.sub(r"sp-\w+-\w+|\S*://\S+|(?<!\S)/\S+|\b[0-9a-f]{32}\b|\b\d[\w,.:+-]*|\"[^\"]*\"", " ", output)
    return {word.removesuffix("s") for word in set(re.findall(r"\b[A-Za-z'/_-]+\b", plain)) - _VARIES}


def load_component(text: str) -> Any:
    """Loads a `defs.yaml` as Dagster does, and returns its definitions."""
    import dagster as dg
    from dagster.components.testing import create_defs_folder_sandbox

    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "stream"
        folder.mkdir()
        (folder / "defs.yaml").write_text(text)
        with sandbox.load_component_and_build_defs(folder) as (_, defs):
            dg.Definitions.validate_loadable(defs)
            return defs


TYPED: Mapping[str, Callable[[Reader, Block], object]] = {
    "python": Reader._type_python,
    "sh": Reader._type_commands,
    "console": Reader._type_commands,
    "sql": Reader._type_sql,
    "yaml": Reader._type_yaml,
    "json": lambda reader, block: json.loads(block.text),
    "toml": lambda reader, block: tomllib.loads(block.text),
    "ini": lambda reader, block: configparser.ConfigParser(interpolation=None).read_string(block.text),
}
"""How a block of each language is typed."""

SHOWN = {
    "text": "what a program prints, a layout of folders or bytes: compared where it follows the block that prints it",
    "mermaid": "a drawing",
    "diff": "a change of a file that the page shows",
    "{eval-rst}": "entries of the API pages, which `make docs` reads",
}
"""Languages of blocks in which there is nothing to run."""
