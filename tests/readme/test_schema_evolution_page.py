"""The examples of the page about changing types run exactly as printed."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "schema-evolution.md"


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    code = "\n\n".join(blocks)
    (tmp_path / "test_evolution.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_evolution.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{len(re.findall(r'^def test_', code, re.MULTILINE))} passed" in done.stdout
