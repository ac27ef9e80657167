"""An address means the place that it seems to name, or it is refused by name before anything is created."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from state_engine.errors import UnsupportedAddressError
from state_engine.savepoint import trigger_savepoint
from state_engine.spark import DeltaSink, StreamJob
from state_engine.storage.job_lock import control_folder
from state_engine.storage.open import open_root, open_storage
from state_engine.storage.roots import address, comparable, local_path

REFUSED = (
    "",
    "  ",
    "dbfs:/x",
    "s3:/bucket/x",
    "s3:bucket",
    "gs:/b",
    "C:\\state",
    "jobs:2026/x",
    "file://tmp/x",
    "file:x",
    "~/state",
    "~other/state",
    "$HOME/state",
    "${ROOT}/state",
    "/data/a\tb",
    "/data/a\nb",
    "/data/a%20b",
    "file:///data/a%2520b",
    "/data/a\\b",
    "/data/a[b]",
    "/data/a|b",
    "/data/a^b",
)
KEPT = {
    "/data/x": "/data/x",
    "/data/x/": "/data/x",
    "file:/data/x": "/data/x",
    "file:///data/a%20b": "/data/a b",
    "file://localhost/data/x": "/data/x",
    "/data/jobs:2026": "/data/jobs:2026",
    "/data/~x/100%": "/data/~x/100%",
    "s3://bucket/x": "s3://bucket/x",
    "memory://x": "memory://x",
    "abfss://c@account.dfs.core.windows.net/x": "abfss://c@account.dfs.core.windows.net/x",
}


@pytest.mark.parametrize("given", REFUSED)
def test_an_address_that_would_be_another_place_is_refused_everywhere(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (
        local_path,
        open_root,
        DeltaSink,
        lambda root: open_storage(root, "job"),
        lambda root: StreamJob("job", root=root),
        lambda root: control_folder(root, "job"),
    ):
        with pytest.raises(UnsupportedAddressError):
            use(given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", KEPT)
def test_other_addresses_stay_what_they_are(given: str) -> None:
    assert address(given) == KEPT[given]
    assert DeltaSink(given).path == KEPT[given]


def test_a_relative_folder_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert address("state") == str(tmp_path / "state")
    assert address("./jobs:2026") == str(tmp_path / "jobs:2026")
    assert comparable("./state/") == comparable(f"file:{tmp_path}/state")


@pytest.mark.parametrize("given", [None, 5, b"/data/x"])
def test_what_is_no_text_is_refused_by_name(given: object) -> None:
    with pytest.raises(UnsupportedAddressError, match="is neither a text nor a path"):
        DeltaSink(given)  # type: ignore[arg-type]


def test_a_path_object_is_an_address(tmp_path: Path) -> None:
    assert DeltaSink(tmp_path / "t").path == str(tmp_path / "t")
    assert StreamJob("job", root=tmp_path).root == str(tmp_path)


def test_a_savepoint_is_not_written_to_such_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedAddressError):
        trigger_savepoint("memory://addresses", "job", kind="canonical", directory="s3:/bucket/x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["a%b", "a b", "a?b", "a#b", "a*b", "a{b", 'a"b', "a:b", "a&b=c", "ä😀", "a+b", "a~$b"]
)
def test_what_is_not_refused_is_opened_by_delta(tmp_path: Path, name: str) -> None:
    path = address(tmp_path / name)
    write_deltalake(path, pa.table({"x": [1, 2]}))
    assert DeltaTable(path).to_pyarrow_table()["x"].to_pylist() == [1, 2]
    assert [folder.name for folder in tmp_path.iterdir()] == [name]
