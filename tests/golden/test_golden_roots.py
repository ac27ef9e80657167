"""State roots that earlier releases wrote: this release reads every row, savepoint and list of retention in them."""

import io
import json
import shutil
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from root_archive import SUMS, archive_of, digest_of, unpack, versions
from root_job import FILED, FORK, KEY_GROUPS, NAME, PER_FILE, event
from root_rows import FILE, moments_of, rows_at, rows_of, states_at
from root_values import BOB, MOMENTS, SKETCHES, Truth, check_contents, content_of, estimates, raw_counts

from lakestate.supervision.places import driver_folder
from lakestate.supervision.records import WantedFile
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.checkpoint.retention.steps import plan_retention
from state_engine.errors import DamagedFileError, UnsupportedVersionError
from state_engine.inspect import open_job, read_state, run_sql
from state_engine.savepoint import list_savepoints, validate_savepoint

POLICY = RetentionPolicy(checkpoints=Keep(last=1))


@pytest.fixture(scope="module", params=versions())
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked root, which tests only read."""
    folder = tmp_path_factory.mktemp("golden") / request.param
    unpack(archive_of(request.param), folder)
    return folder


def root_of(folder: Path) -> str:
    return str(folder / "state")


def states(folder: Path, moment: str) -> dict[tuple[str, str], Any]:
    root = root_of(folder)
    at = moments_of(root, NAME)[moment]
    found = {}
    for schema in states_at(root, NAME, at):
        rows = read_state(root, NAME, schema.uid, schema.name, at=at).to_pylist()
        found[schema.uid, schema.name] = content_of(rows, schema.shape)
    return found


def test_there_is_a_root_of_the_first_release() -> None:
    assert versions()[0] == "0.1.0"


@pytest.mark.parametrize("moment", MOMENTS)
def test_every_state_is_what_its_input_says(golden: Path, moment: str) -> None:
    truth, found = Truth(MOMENTS[moment]), states(golden, moment)
    for state in SKETCHES:
        found["totals", state] = estimates(state, found["totals", state])
    check_contents(found, truth)
    _check_lists(found, len(truth.events))
    kept = {("near", "left"), ("near", "right")}
    of_operator = {("kinds", name) for name in ("numbers", "counts", "_raw_operator_state", "_raw_keyed_state")}
    assert set(found) == {*truth.contents(), *truth.passing(), *truth.bounds(), *kept, *of_operator}


def _check_lists(found: dict[tuple[str, str], Any], records: int) -> None:
    """Checks state that is divided among subtasks, and what an interval join keeps for records to come."""
    numbers, counts, raw = (
        [one for values in found["kinds", name].values() for one in values]
        for name in ("numbers", "counts", "_raw_operator_state")
    )
    assert sorted(numbers) == list(range(records))
    assert sum(counts) == sum(map(int, raw)) == records
    by_key = raw_counts(found["kinds", "_raw_keyed_state"].values())
    assert by_key == {json.dumps(k): len(events) for k, events in Truth(records // PER_FILE).by_k.items()}
    for side, column in (("left", "one"), ("right", "other")):
        for place, waiting in found["near", side].items():
            n = [one["record"][column] for one in waiting]
            assert [event(number).k for number in n] == [place[0]] * len(n)
            assert [one["at"] for one in waiting] == [event(number).at for number in n]
        kept = {one["record"][column] for waiting in found["near", side].values() for one in waiting}
        assert {n for n in range(records - 5, records) if event(n).k is not None} <= kept <= set(range(records))


def test_a_value_of_each_type_is_what_was_written(golden: Path) -> None:
    rows = read_state(root_of(golden), NAME, "kinds", "all_types").to_pylist()
    [value] = [row["value"] for row in rows if row["k"] == "bob"]
    instant = value.pop("instant")
    assert value == BOB
    assert (instant.isoformat(), instant.utcoffset().total_seconds()) == ("2024-04-18T12:30:15.123456+00:00", 0)


def test_every_row_is_what_its_release_read(golden: Path) -> None:
    expected = json.loads((golden / FILE).read_text())
    assert sum(map(len, expected.values())) > 1000
    found = rows_of(golden)
    assert found.keys() == expected.keys()
    for state, rows in expected.items():
        assert found[state] == rows, state


def test_state_in_files_of_a_changed_type_with_restored_keys_and_forked_is_read(golden: Path) -> None:
    root = root_of(golden)
    assert [row.status for row in open_job(root, FILED).checkpoints()][-1] == "completed"
    assert list((golden / "state" / FILED).rglob("*.stream"))
    manifests = [stored.manifest for stored in open_job(root, FILED).epochs(100)]
    [schema] = [one for one in manifests[0].schemas if one.name == "count"]
    assert (schema.value, [former.value for former in schema.former]) == ("bigint", ["int"])
    assert any(manifest.restored for manifest in manifests)
    assert open_job(root, FORK).epochs(100)[-1].manifest.origin is not None
    expected = {(k,) if k else (None,): len(events) for k, events in Truth(MOMENTS["latest"]).by_k.items()}
    for job in (FILED, FORK):
        assert content_of(read_state(root, job, "count", "count").to_pylist(), "value") == expected


def test_state_is_read_by_sql(golden: Path) -> None:
    statement = "select k, value from kinds.times order by k nulls first"
    published = run_sql(root_of(golden), NAME, statement).to_pylist()
    counts = [{(k or ""): len(events) for k, events in Truth(files).by_k.items()} for files in (3, 4)]
    assert {(row["k"] or ""): row["value"] for row in published} in counts, "not those of the newest checkpoint"
    live = run_sql(root_of(golden), NAME, statement, live=True).to_pylist()
    assert [row["value"] for row in live] == [12, 13, 13, 12]


def test_both_savepoints_are_listed_and_valid(golden: Path) -> None:
    root = root_of(golden)
    native, canonical = list_savepoints(root, NAME)
    assert (native.label, native.note, native.generation) == ("native", "after two files", 1)
    assert (canonical.label, canonical.note, canonical.generation) == ("canonical", "after four files", 2)
    for savepoint in (native, canonical):
        report = validate_savepoint(root, NAME, savepoint.savepoint_id)
        assert report.ok, [str(finding) for finding in report.findings]
    folder = golden / "state" / NAME / "_savepoints" / canonical.savepoint_id
    assert validate_savepoint(root, NAME, str(folder)).ok


def test_manifests_checkpoints_and_control_data_are_read(golden: Path) -> None:
    root, job = root_of(golden), open_job(root_of(golden), NAME)
    manifests = [stored.manifest for stored in job.epochs(100)]
    assert {manifest.kind for manifest in manifests} >= {"claim", "epoch", "restore"}
    assert job.generations == [1, 2]
    assert {op.max_parallelism for op in manifests[0].operators.values()} == {KEY_GROUPS}
    assert {op.parallelism for op in manifests[0].operators.values()} == {3}
    completed = [row for row in job.checkpoints() if row.status == "completed"]
    assert len(completed) >= 3
    wanted = WantedFile(driver_folder(root, NAME)).read()
    assert wanted is not None
    assert (wanted.state, wanted.since, wanted.request.parallelism) == ("stopped", 1_700_000_000_000, 2)


def test_sinks_are_read(golden: Path) -> None:
    truth = Truth(MOMENTS["latest"])
    rows = DeltaTable(str(golden / "out" / "kinds")).to_pyarrow_table().to_pylist()
    assert sorted(tuple(row.values()) for row in rows if row["what"] == "record") == truth.records()
    pairs = DeltaTable(str(golden / "out" / "near")).to_pyarrow_table().to_pylist()
    assert sorted((row["one"], row["other"]) for row in pairs) == sorted(truth.pairs())


def test_retention_decides_as_its_release_did(golden: Path) -> None:
    """Its own list of condemned files, written right before the root was packed, has what is decided now."""
    root, job = root_of(golden), golden / "state" / NAME
    [condemned] = (job / "_retention" / "condemned").iterdir()
    [lease] = (job / "_retention" / "leases").iterdir()
    listed = json.loads(condemned.read_bytes())["body"]
    plan = plan_retention(root, NAME, POLICY, listed["condemned_at"])
    assert listed["files"]
    assert {removal.path for removal in plan.removals} == {file["path"] for file in listed["files"]}
    after_all = json.loads(lease.read_bytes())["body"]["expires_at"] + listed["grace_ms"]
    late = plan_retention(root, NAME, POLICY, after_all)
    assert {removal.path for removal in late.removals} >= {file["path"] for file in listed["files"]}
    assert list((job / "_epochs" / "floors").iterdir())


# Damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the first release's archive and its digest."""
    archive = archive_of("0.1.0")
    shutil.copy(digest_of(archive), tmp_path)
    return Path(shutil.copy(archive, tmp_path))


def test_an_archive_with_a_flipped_bit_is_refused(copied: Path, tmp_path: Path) -> None:
    data = bytearray(copied.read_bytes())
    data[len(data) // 2] ^= 1
    copied.write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"0\.1\.0\.tar\.xz has another SHA-256 than 0\.1\.0\.sha256") as caught:
        unpack(copied, tmp_path / "to")
    assert "from git again" in caught.value.action
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("what", ["changed", "missing", "added"])
def test_a_member_that_is_not_as_listed_is_refused_by_name(copied: Path, tmp_path: Path, what: str) -> None:
    """The digest of the whole archive is written anew, so that those of the members are compared."""
    name = f"state/{NAME}/_epochs/birth.json"
    with tarfile.open(copied) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    if what == "changed":
        members[name] = members[name].replace(b"lakestate.birth", b"lakestate.berth")
    elif what == "missing":
        del members[name]
    else:
        members[SUMS] = b"".join(line for line in members[SUMS].splitlines(True) if name.encode() not in line)
    with tarfile.open(copied, "w:xz", preset=0) as archive:
        for member, data in members.items():
            header = tarfile.TarInfo(member)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    digest_of(copied).write_text(f"{sha256(copied.read_bytes()).hexdigest()}  {copied.name}\n")
    with pytest.raises(DamagedFileError, match=f"Member {name} of .* is not what SHA256SUMS says"):
        unpack(copied, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_flipped_bit_in_an_unpacked_root_is_noticed(tmp_path: Path) -> None:
    """The tests above compare what these files hold, so a release that reads one differently fails them by name."""
    unpack(archive_of("0.1.0"), tmp_path / "golden")
    root = root_of(tmp_path / "golden")
    [native, canonical] = list_savepoints(root, NAME)
    pin = tmp_path / "golden" / "state" / NAME / "_savepoints" / native.savepoint_id / "pin.json"
    pin.write_bytes(pin.read_bytes().replace(b"after two files", b"after ten files"))
    assert [finding.path for finding in validate_savepoint(root, NAME, native.savepoint_id).findings]
    table = next((tmp_path / "golden").rglob(f"{canonical.savepoint_id}/kinds/times/*.parquet"))
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"times"):
        read_state(root, NAME, "kinds", "times", at=canonical.savepoint_id)


def test_a_version_of_a_format_that_no_release_wrote_is_named(tmp_path: Path) -> None:
    unpack(archive_of("0.1.0"), tmp_path / "golden")
    manifest = max((tmp_path / "golden" / "state" / NAME / "_epochs" / "g000002").glob("e*.json"))
    manifest.write_bytes(manifest.read_bytes().replace(b'"version":1', b'"version":9', 1))
    with pytest.raises(UnsupportedVersionError, match="9"):
        read_state(root_of(tmp_path / "golden"), NAME, "kinds", "times")


def test_rows_are_compared_one_by_one(golden: Path) -> None:
    """The comparison with `rows.json` fails for one other value."""
    root = root_of(golden)
    [schema] = [s for s in states_at(root, NAME, "latest") if (s.uid, s.name) == ("kinds", "times")]
    expected = json.loads((golden / FILE).read_text())[f"{NAME} latest kinds/times"]
    expected[0]["value"] += 1
    assert rows_at(root, NAME, "latest", schema) != expected
