"""Follows a page as its reader would: writes its files, types its commands, and compares what is printed.

A fenced block is a step, and the line above it may give it a heading:

| block | step |
|---|---|
| below **`clicks.py`** | write the file |
| below **`clicks.py`**, continued | add to the file, after a blank line or two |
| `diff`, below **`clicks.py`**, changed | lines with `-` go, lines with `+` come, all other lines must be there |
| `bash` | type the lines into a shell, which keeps its folder and variables until the walk ends |
| `bash`, below **In another terminal** | the same in a second shell, which runs until the walk ends |
| `text` | what the last commands printed, except for numbers, ids and folders; `…` is any number of lines |
| any other | nothing to do |

A numbered list is what the reader clicks in a browser: a function does it instead.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(
    r"^(?:\*\*(?:`(?P<file>[^`\n]+)`\*\*(?P<how>, continued|, changed)?|(?P<terminal>In another terminal)\*\*)\n\n)?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LIST = re.compile(r"^1\. ", re.MULTILINE)
CLICKS = "clicks"
_OTHER_LOG = ".other-terminal"


class Step(NamedTuple):
    """One block of a page.

    Attributes:
        page: The page, below `docs/`.
        line: Of the page, where the block or its heading begins.
        language: Of the block.
        file: The file of which the block is, or empty.
        continues: Whether the block is added to the file.
        elsewhere: Whether the commands are for another terminal.
        text: What is between the fences.
    """

    page: str
    line: int
    language: str
    file: str
    continues: bool
    elsewhere: bool
    text: str


def steps_of(page: str) -> Iterator[Step]:
    """Yields the blocks and the numbered lists of a page below `docs/`, in order."""
    text = (DOCS / page).read_text()
    found = sorted([*_BLOCK.finditer(text), *_LIST.finditer(text)], key=lambda match: match.start())
    for match in found:
        line = text.count("\n", 0, match.start()) + 1
        if match.re is _LIST:
            yield Step(page, line, CLICKS, "", False, False, "")
            continue
        continues, elsewhere = match["how"] == ", continued", match["terminal"] is not None
        yield Step(page, line, match["language"], match["file"] or "", continues, elsewhere, match["text"])


def files_of(page: str) -> dict[str, str]:
    """Returns the files that a page shows whole, by path."""
    files: dict[str, str] = {}
    for step in steps_of(page):
        if step.file and step.language != "diff":
            files[step.file] = joined(files[step.file], step.text) if step.continues else step.text
    return files


class Walk:
    """A reader in a folder of its own; use as a context manager, which ends what still runs.

    Attributes:
        minutes: Wall time by page, in minutes.

    Args:
        folder: Where the reader begins: an empty folder.
        environment: Variables of the reader's shells.
        skip: Commands that were done already: lines that begin with one of these are not typed.
        clicks: What to do at each numbered list, in order.
        instead: Texts in commands that are replaced by others, such as the name of a package by the path of its wheel.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        *,
        skip: tuple[str, ...] = (),
        clicks: Iterable[Callable[["Walk"], None]] = (),
        instead: Mapping[str, str] | None = None,
    ) -> None:
        self._start = folder
        self._cwd = folder
        self._environment = dict(environment)
        self._skip, self._instead, self._clicks = skip, instead or {}, iter(clicks)
        self._printed = ""
        self._background: list[subprocess.Popen[bytes]] = []
        self.minutes: dict[str, float] = {}

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._background:
            for ending in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, ending)
                    process.wait(20)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
        stop = shutil.which("lakestate", path=self._environment["PATH"])
        root = self._environment.get("LAKESTATE_ROOT")
        if stop and root and Path(root).is_dir():
            for job in (path.name for path in Path(root).iterdir() if path.is_dir()):
                subprocess.run([stop, "stop", job, "--kill"], env=self._environment, capture_output=True, timeout=60)

    @property
    def cwd(self) -> Path:
        """The folder in which the reader is now."""
        return self._cwd

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the reader's shell."""
        return dict(self._environment)

    @property
    def other_terminal(self) -> str:
        """What was printed in the other terminal."""
        return (self._start / _OTHER_LOG).read_text()

    def follow(self, page: str) -> None:
        """Does every step of a page.

        Raises:
            AssertionError: A command failed, or printed something else.
        """
        begun = time.monotonic()
        for step in steps_of(page):
            self._do(step)
        self.minutes[page] = round((time.monotonic() - begun) / 60, 2)

    def _do(self, step: Step) -> None:
        place = f"docs/{step.page}:{step.line}"
        path = self._cwd / step.file
        if step.language == CLICKS:
            next(self._clicks)(self)
        elif step.language == "diff":
            path.write_text(changed(path.read_text(), step.text, place))
        elif step.file:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(joined(path.read_text(), step.text) if step.continues else step.text)
        elif step.language == "bash" and step.elsewhere:
            self._begin(step.text)
        elif step.language == "bash":
            self._type(step.text, place)
        elif step.language == "text":
            missing = first_missing(step.text, self._printed, self._start)
            assert missing is None, f"{place}: not printed: {missing}\n--- printed:\n{self._printed[-6000:]}"

    def _typed(self, text: str) -> str:
        lines = [line for line in text.splitlines() if not line.startswith(self._skip or ("\0",))]
        typed = "\n".join(lines)
        for old, new in self._instead.items():
            typed = typed.replace(old, new)
        return typed

    def _type(self, text: str, place: str) -> None:
        kept = self._start / ".shell"
        # -a: a terminal keeps variables that are not exported, too
        script = f"set -ea\n{self._typed(text)}\nset +ea\n{{ pwd; env -0; }} > '{kept}'\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._cwd,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=900,
            check=False,
        )
        self._printed = done.stdout.decode()
        assert done.returncode == 0, f"{place}: exit code {done.returncode}\n{text}\n---\n{self._printed[-6000:]}"
        cwd, _, variables = kept.read_bytes().partition(b"\n")
        self._cwd = Path(os.fsdecode(cwd))
        pairs = (os.fsdecode(pair).partition("=") for pair in variables.split(b"\0") if pair)
        self._environment = {name: value for name, _, value in pairs if not name.startswith("BASH_FUNC")}

    def _begin(self, text: str) -> None:
        with (self._start / _OTHER_LOG).open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", self._typed(text)],
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._background.append(process)


def joined(text: str, more: str) -> str:
    """Returns a file with a block added: two blank lines before a new definition, one before a method."""
    return f"{text}\n{more}" if more.startswith(" ") else f"{text}\n\n{more}"


def changed(text: str, difference: str, place: str) -> str:
    """Returns a file after a block of changes; blank lines separate places in the file."""
    for hunk in re.split(r"^\s*@@.*\n", difference, flags=re.MULTILINE):
        lines = hunk.splitlines()
        old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
        new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
        if old == new:
            continue
        assert text.count(old) == 1, f"{place}: {text.count(old)} times in the file:\n{old}"
        text = text.replace(old, new)
    return text


def first_missing(expected: str, printed: str, folder: Path) -> str | None:
    """Returns the first line of an output block that was not printed after the line before; None if all were."""
    lines = [plain(line, folder) for line in printed.splitlines()]
    at, anywhere = 0, True
    for line in expected.splitlines():
        if line.strip() == "…":
            anywhere = True
            continue
        wanted = plain(line, folder)
        if not wanted:
            continue
        while at < len(lines) and not lines[at] and not anywhere:
            at += 1
        rest = lines[at:] if anywhere else lines[at : at + 1]
        if wanted not in rest:
            return line
        at += rest.index(wanted) + 1
        anywhere = False
    return None


def plain(line: str, folder: Path) -> str:
    """Returns a line without what differs between two runs: numbers, ids, folders, widths of tables."""
    line = line.replace(str(folder), "/home/ann")
    line = re.sub(r"\x1b\[\d*m", "", line)  # colours
    line = re.sub(r"sp-\w+-\w+", "sp-#", line)
    line = re.sub(r"[─━┏┓┡┩└┘┳┻╇┴┬]+", "─", line).replace("┃", "│")
    line = re.sub(r"\d[\d,.:]*(dev\d+)?", "#", line)
    line = re.sub(r"# (ms|s|min|KiB|MiB|B)\b( # s)?", "#", line)
    return " ".join(line.split())
