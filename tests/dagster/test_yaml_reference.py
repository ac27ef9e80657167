"""The settings in `docs/guides/dagster/yaml-reference.md` are those that a `defs.yaml` may have.

Names, defaults and meanings come from the dataclasses of the policies and their docstrings. If they have changed, the
failing test prints the tables that the page needs; or run this file as a program, which writes them.
"""

import dataclasses
import inspect
import re
import types
import typing
from datetime import timedelta
from pathlib import Path

import pytest

from lakestate.policies import RestartPolicy, StreamPolicies
from lakestate.policies.plain import policy_from

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "dagster" / "yaml-reference.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"


def meanings(kind):
    """Returns the lines of the section `Attributes` of a class and its bases, by field."""
    found = {}
    for one in reversed(kind.__mro__):
        text = inspect.cleandoc(one.__doc__ or "").partition("\nAttributes:\n")[2]
        for name, meaning in re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", text, re.MULTILINE):
            found[name] = " ".join(meaning.split())
    return found


def plain(value):
    """Returns a default as YAML has it."""
    if isinstance(value, timedelta):
        return duration(value // timedelta(milliseconds=1))
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def duration(milliseconds):
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), (" min", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def inner(hint):
    """Returns the dataclasses that a field may have."""
    hints = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return [one for one in hints if dataclasses.is_dataclass(one)]


def tables(kind=StreamPolicies, default=None, path="policies"):
    """Yields one table for each dataclass: its path, and its fields with default and meaning."""
    default = default if default is not None else kind()
    hints, about, rows, below = typing.get_type_hints(kind), meanings(kind), [], []
    for field in dataclasses.fields(kind):
        value, name = getattr(default, field.name, None), field.name.removesuffix("_ms")
        deeper = inner(hints[field.name])
        if deeper:
            below += [(one, value, f"{path}.{name}") for one in deeper]
            shown = f"see `{path}.{name}`" if value is not None else "null"
        else:
            in_ms = field.name.endswith("_ms") and isinstance(value, int)
            shown = f"`{duration(value) if in_ms else plain(value)}`"
        rows.append(f"| `{name}` | {shown} | {about.get(field.name, '')} |")
    yield f"### `{path}`\n\n| setting | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    for one, value, place in below:
        if one is RestartPolicy:
            for strategy in RestartPolicy.__subclasses__():
                yield from tables(strategy, strategy(), f"{place} (strategy: {strategy.strategy})")
        else:
            yield from tables(one, value, place)


def rendered():
    return "\n".join(tables())


def settings_of_page():
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip("\n") + "\n"


def test_the_page_has_the_settings_of_the_policies():
    assert settings_of_page() == rendered().strip("\n") + "\n"


def test_every_setting_says_what_it_is_for():
    silent = [line for line in rendered().splitlines() if line.endswith("|  |")]
    assert not silent


@pytest.mark.parametrize("row", re.findall(r"^\| `(\w+)` \| `(.+?)` \|", next(tables()), re.MULTILINE), ids=str)
def test_a_default_as_the_page_shows_it_is_what_policies_have(row):
    name, shown = row
    value = None if shown == "null" else int(shown) if shown.isdecimal() else shown
    assert policy_from(StreamPolicies(), {name: value}) == StreamPolicies()


if __name__ == "__main__":
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{rendered()}\n{END}{rest.partition(END)[2]}")
