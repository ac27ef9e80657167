"""What follows the pages notices when a page is wrong."""

import os
from pathlib import Path

import pages
import pytest


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    return tmp_path / "page.md"


def follow(page: Path, folder: Path) -> pages.Walk:
    folder.mkdir()
    with pages.Walk(folder, os.environ) as walk:
        walk.follow(page.name)
    return walk


GOOD = """
**`greet.py`**

```python
word = "hello"
```

**`greet.py`**, continued

```python
def greet():
    print(word, 12, "s")
```

**`greet.py`**, changed

```diff
-word = "hello"
+word = "bye"
+mark = "!"
@@ below
     print(word, 12, "s")
+    print(mark)
```

```bash
mkdir inner && cd inner && NAME=ann
```

```bash
PYTHONPATH=.. python3 -c "import greet; greet.greet()" && echo $NAME && pwd
```

```text
bye 345 s
…
/home/ann/inner
```
"""


TERMINAL = """
**In another terminal**

```bash
echo $$ > id; sleep 600
```

```bash
sleep 0.5; cat id
```
"""


def test_files_commands_changes_and_output_are_followed(page: Path, tmp_path: Path) -> None:
    page.write_text(GOOD)
    walk = follow(page, tmp_path / "reader")
    assert walk.cwd == tmp_path / "reader" / "inner"
    assert walk.environment["NAME"] == "ann"
    assert set(walk.minutes) == {"page.md"}
    assert list(pages.files_of("page.md")) == ["greet.py"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("bye 345 s", "hello 345 s", "not printed: hello"),
        ("…\n/home", "/home", "not printed: /home/ann/inner"),
        ("&& pwd", "&& false", "exit code 1"),
        ('-word = "hello"', '-word = "hi"', "0 times in the file"),
    ],
)
def test_a_wrong_page_fails_with_its_place(page: Path, tmp_path: Path, old: str, new: str, found: str) -> None:
    assert GOOD.count(old) == 1
    page.write_text(GOOD.replace(old, new))
    with pytest.raises(AssertionError, match=found):
        follow(page, tmp_path / "reader")


def test_what_another_terminal_runs_ends_with_the_walk(page: Path, tmp_path: Path) -> None:
    page.write_text(TERMINAL)
    follow(page, tmp_path / "reader")
    process = int((tmp_path / "reader" / "id").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
