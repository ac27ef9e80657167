"""The pages show what `lakestate up` prints, and `make` has the verbs that they name."""

import io
import re
from pathlib import Path

from rich.console import Console

from lakestate.up.layout import Layout
from lakestate.up.record import Record
from lakestate.up.view import print_what_to_click

ROOT = Path(__file__).parents[2]


def test_the_page_shows_what_there_is_to_click() -> None:
    output = io.StringIO()
    layout = Layout(Path("/srv/.lakestate/up"))
    print_what_to_click(Console(file=output, width=1_000), Record(port=3000, every_s=15), layout, ["flights", "orders"])
    printed = "\n".join(line.rstrip() for line in output.getvalue().strip().splitlines())
    assert printed in (ROOT / "docs" / "try-it.md").read_text()


def test_make_has_the_verbs_of_the_readme() -> None:
    named = set(re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"up", "demo", "test"} <= named <= targets
