"""Prose that readers meet uses plain words (`CONTRIBUTING.md`): some phrases that hide who does what are forbidden.

Tests are not held to it; words in code, such as names and data, are their own matter.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

AVOIDED = re.compile(
    r"\b(nobody|somebody|whoever|so many|at hand|in vain|lets? go of|tells? of|(?:is|are) asked for|brought up)\b", re.I
)
INSTEAD = "Say who does it: the caller, the driver, a user, another process; the number, the current one, reports."
ALLOWED = {
    ("state_engine/checkpoint/retention/savepoints.py", "nobody"): "the reason is in lists that releases have written",
}
PLACES = ("state_engine/", "platform/", "assets/", "resources/", "examples/", "benchmarks/", "docs/")


def prose() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, check=True, text=True)
    files = [name for name in listed.stdout.split() if "/" not in name or name.startswith(PLACES)]
    return [
        name
        for name in files
        if not name.endswith(("CHANGELOG.md", "benchmarks/history.md")) and (ROOT / name).is_file()
    ]


def test_prose_says_who_does_what() -> None:
    phrases = [
        f"{name}:{number}: {match[0]}"
        for name in prose()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        for match in AVOIDED.finditer(line)
        if (name, match[0].lower()) not in ALLOWED
    ]
    assert not phrases, f"{INSTEAD}\n" + "\n".join(phrases)


def test_each_exception_is_needed() -> None:
    for path, word in ALLOWED:
        assert word in (ROOT / path).read_text(encoding="utf-8"), (path, word)
