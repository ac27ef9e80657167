"""No import cycles of more than two files: such files can only be understood all together."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("count_rooms", ROOT / "scripts" / "count_rooms.py")
assert _spec is not None
assert _spec.loader is not None
count_rooms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(count_rooms)

# Its streams name each other, as PyFlink's do.
KNOWN = [
    {
        "flink.broadcast_streams",
        "flink.connected_streams",
        "flink.data_stream",
        "flink.environment",
        "flink.job_client",
        "flink.keyed_stream",
        "flink.results",
    },
]


def test_no_circle_has_more_than_two_files() -> None:
    circles = count_rooms.circles(count_rooms.imports_of(ROOT / "state_engine"))
    large = [{name.removeprefix("state_engine.") for name in circle} for circle in circles if len(circle) > 2]
    assert [circle for circle in large if circle not in KNOWN] == []
    assert [circle for circle in KNOWN if circle not in large] == [], "the cycle is gone: delete it from the list"


@pytest.mark.parametrize(
    "how", ["from pkg import b", "from pkg.b import x", "import pkg.b", "def f():\n    import pkg.b"]
)
def test_a_circle_is_seen_however_it_is_written(tmp_path: Path, how: str) -> None:
    files = {"__init__": "", "a": how, "b": "from pkg.c import y", "c": "import pkg.a", "d": "import pkg.a"}
    for name, text in files.items():
        (tmp_path / "pkg").mkdir(exist_ok=True)
        (tmp_path / "pkg" / f"{name}.py").write_text(text + "\n")
    imports = count_rooms.imports_of(tmp_path / "pkg")
    assert count_rooms.circles(imports) == [["pkg.a", "pkg.b", "pkg.c"]]
    assert count_rooms.circles({**imports, "pkg.c": set()}) == []
