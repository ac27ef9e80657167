"""`lakestate savepoint` and `savepoints`."""

from pathlib import Path

from msgspec.structs import replace

from lakestate.commands import restore, savepoints, status
from state_engine.epoch.request import OperatorShape
from state_engine.log.paths import pin_path
from state_engine.savepoint import list_savepoints


def test_a_savepoint_is_taken_and_listed(job) -> None:
    ended = job.run("savepoint", "flights", "--label", "[bold]first", "--note", "before the change")
    assert ended.code == 0
    [pin] = list_savepoints(job.root, "flights")
    assert ended.out.split()[:4] == [pin.savepoint_id, "native,", "epoch", "1/4,"]
    assert (pin.label, pin.note, pin.trigger) == ("[bold]first", "before the change", "user")
    listed = job.run("savepoints", "list", "flights")
    assert pin.savepoint_id in listed.out
    assert "[bold]first" in listed.out


def test_an_epoch_of_the_past_can_be_pinned(job) -> None:
    assert job.run("savepoint", "flights", "--epoch", "2", "--json").json["epoch"] == 2
    ended = job.run("savepoint", "flights", "--epoch", "9")
    assert (ended.code, ended.out) == (2, "")
    assert "Name an epoch from 1 to 4" in ended.err
    assert len(job.run("savepoints", "list", "flights", "--json").json) == 1


def test_lists_of_programs_leave_out_the_files(job) -> None:
    job.run("savepoint", "flights", "--label", "one")
    [listed] = job.run("savepoints", "list", "flights", "--json").json
    shown = job.run("savepoints", "show", "flights", listed["savepoint_id"], "--json").json
    assert "handles" not in listed
    assert {**listed, "handles": shown["handles"], "manifests": shown["manifests"]} == shown


def test_one_savepoint_is_shown_with_its_files(job) -> None:
    savepoint_id = job.run("savepoint", "flights", "--note", "x").out.split()[0]
    out = job.run("savepoints", "show", "flights", savepoint_id, "--files").out
    [pin] = list_savepoints(job.root, "flights")
    assert "checkpoint 1 of epoch 3, and 1 manifest since" in out
    for path, _ in pin.handles:
        assert path in out


def test_a_savepoint_that_lost_a_file_is_a_failure_that_names_it(job) -> None:
    savepoint_id = job.run("savepoint", "flights").out.split()[0]
    [pin] = list_savepoints(job.root, "flights")
    Path(job.root, "flights", pin.handles[-1][0]).unlink()
    ended = job.run("savepoints", "show", "flights", savepoint_id)
    assert (ended.code, ended.out) == (1, "")
    assert "MissingFileError" in ended.err
    assert pin.handles[-1][0] in ended.err


def test_an_id_that_is_not_there_is_wrong_use(job) -> None:
    ended = job.run("savepoints", "show", "flights", "sp-1")
    assert ended.code == 2
    assert "has no savepoint 'sp-1'" in ended.err


def test_no_savepoints_are_no_error(job) -> None:
    assert job.run("savepoints", "list", "flights").out == f"Job flights has no savepoints under {job.root}.\n"


def test_a_canonical_savepoint_is_written_out_and_can_lie_elsewhere(job, tmp_path: Path) -> None:
    ended = job.run("savepoint", "flights", "--type", "canonical", "--directory", str(tmp_path / "backup"))
    assert ended.code == 0
    savepoint_id = ended.out.split()[0]
    assert "canonical, epoch 1/4" in ended.out
    assert f"in {tmp_path}/backup/{savepoint_id}" in ended.out
    [listed] = job.run("savepoints", "list", "flights", "--json").json
    assert listed["savepoint_id"] == savepoint_id
    folder = str(tmp_path / "backup" / savepoint_id)
    for name in (savepoint_id, folder):
        ended = job.run("savepoints", "validate", "flights", name, "--without-code")
        assert ended.out.startswith(f"{savepoint_id} is sound; ")
    assert job.run("savepoint", "flights", "--type", "canonical", "--json").json["kind"] == "canonical"


def test_a_native_savepoint_leaves_a_note_elsewhere_that_goes_with_it(job, tmp_path: Path) -> None:
    ended = job.run("savepoint", "flights", "--directory", str(tmp_path / "backup"))
    savepoint_id = ended.out.split()[0]
    folder = tmp_path / "backup" / savepoint_id
    assert f"noted in {folder}" in ended.out
    assert b'"relocatable":false' in (folder / "_metadata").read_bytes()
    assert str(folder) in job.run("savepoints", "show", "flights", savepoint_id).out
    assert job.run("savepoints", "dispose", "flights", savepoint_id).code == 0
    assert not (folder / "_metadata").exists()


def test_damage_is_found_and_named(job) -> None:
    savepoint_id = job.run("savepoint", "flights").out.split()[0]
    assert job.run("savepoints", "validate", "flights", savepoint_id, "--without-code", "--json").json["ok"] is True
    [pin] = list_savepoints(job.root, "flights")
    path = next(path for path, _ in pin.handles if path.endswith(".parquet"))
    file = Path(job.root, "flights", path)
    file.write_bytes(bytes(len(file.read_bytes())))
    ended = job.run("savepoints", "validate", "flights", savepoint_id)
    assert ended.code == 1
    assert path in ended.out
    assert "is damaged: 1 finding;" in ended.out
    printed = job.run("savepoints", "validate", "flights", savepoint_id, "--json")
    assert (printed.code, printed.json["ok"], printed.json["findings"][0]["path"]) == (1, False, path)


def test_the_code_of_a_registered_job_is_asked_whether_it_fits(job) -> None:
    """The job that is registered under this name has other operators than the one that wrote this state."""
    savepoint_id = job.run("savepoint", "flights").out.split()[0]
    ended = job.run("savepoints", "validate", "flights", savepoint_id)
    assert ended.code == 1
    assert f"{savepoint_id} is sound; " in ended.out
    assert ended.out.endswith("; the code of the job does not fit\n")
    assert "MaxParallelismChangedError: Operator 'aircraft'" in ended.out
    printed = job.run("savepoints", "validate", "flights", savepoint_id, "--json")
    assert (printed.code, printed.json["ok"], printed.json["findings"]) == (1, False, [])
    assert printed.json["code"][0]["error"] == "MaxParallelismChangedError"


def test_what_the_code_of_a_registered_job_does_not_read_is_named(job, monkeypatch) -> None:
    """Its `legs` have lost a field, and `count` has another name."""
    states = {schema.name: schema for schema in job.builder.schemas}
    wanted = [
        replace(states["count"], name="counted", schema_id="counted"),
        replace(states["legs"], value="struct<origin:string>", schema_id="shorter"),
        states["seen"],
    ]
    shapes = tuple(
        OperatorShape(
            uid=uid,
            parallelism=1,
            max_parallelism=job.builder.max_parallelism,
            keys=next(schema.key for schema in wanted if schema.uid == uid),
            schemas=tuple(schema for schema in wanted if schema.uid == uid),
            all_known=True,
        )
        for uid in ("aircraft", "carrier")
    )
    for command in (savepoints, status, restore):
        monkeypatch.setattr(command, "operators_of_code", lambda *_: lambda _: shapes)
    savepoint_id = job.run("savepoint", "flights").out.split()[0]
    told = ("state 'count' of operator 'aircraft'", "minutes of state 'legs' of operator 'aircraft'")
    ended = job.run("savepoints", "validate", "flights", savepoint_id)
    assert ended.code == 0
    assert all(f"The code does not read {what} (" in ended.out.replace("\n", " ") for what in told)
    printed = job.run("savepoints", "validate", "flights", savepoint_id, "--json").json
    assert (printed["ok"], printed["code"]) == (True, [])
    assert [(one["state"], one["fields"]) for one in printed["unread"]] == [("count", []), ("legs", ["minutes"])]
    assert job.run("savepoints", "validate", "flights", savepoint_id, "--strict").code == 1

    ended = job.run("status", "flights")
    assert all(what in ended.out.replace("\n", " ") for what in told)
    assert job.run("status", "flights", "--json").json["code"]["unread"] == printed["unread"]
    assert job.run("status", "flights", "--json", "--without-code").json["code"] is None

    arguments = ("restore", "flights", "--from", savepoint_id, "--dry-run")
    ended = job.run(*arguments)
    assert ended.code == 0
    assert "count (keyed): 2 rows" in ended.out
    assert ", unread" in ended.out
    assert all(f"Not read: {what}" in ended.out.replace("\n", " ") for what in told)
    ended = job.run(*arguments, "--strict")
    assert (ended.code, "UnreadStateError" in ended.out) == (1, True)


def test_code_that_fails_to_load_does_not_hide_the_state_of_the_job(job, monkeypatch) -> None:
    def broken(_: object) -> None:
        raise ImportError("No module named 'gone'")

    monkeypatch.setattr(status, "operators_of_code", lambda *_: broken)
    ended = job.run("status", "flights")
    assert ended.code == 0
    assert "could not be checked: ImportError: No module named 'gone'" in ended.out


def test_a_damaged_savepoint_is_listed_as_such_beside_the_others(job) -> None:
    sound, broken = (job.run("savepoint", "flights").out.split()[0] for _ in range(2))
    file = Path(job.root, "flights", pin_path(broken))
    file.chmod(0o644)
    file.write_bytes(b"{}")
    listed = job.run("savepoints", "list", "flights")
    assert listed.code == 0
    assert [line.split()[:2] for line in listed.out.splitlines()[2:4]] == [[sound, "native"], [broken, "damaged"]]
    assert f"{broken}: {pin_path(broken)}" in listed.out
    first, second = job.run("savepoints", "list", "flights", "--json").json
    assert (first["savepoint_id"], second["savepoint_id"]) == (sound, broken)
    assert (second["kind"], second["path"]) == ("damaged", pin_path(broken))
    assert f"1, the newest {sound}; 1 damaged: {broken}" in job.run("status", "flights").out
    for refused in (("savepoints", "show", "flights", broken), ("restore", "flights", "--from", broken)):
        ended = job.run(*refused)
        assert (ended.code, pin_path(broken) in ended.err) == (1, True)
    assert job.run("savepoints", "validate", "flights", broken).code == 1
    assert job.run("savepoints", "dispose", "flights", broken).code == 0
    assert len(job.run("savepoints", "list", "flights", "--json").json) == 1


def test_a_savepoint_that_is_disposed_of_is_gone(job) -> None:
    savepoint_id = job.run("savepoint", "flights").out.split()[0]
    assert job.run("savepoints", "dispose", "flights", savepoint_id).out == f"{savepoint_id} is disposed of\n"
    assert job.run("savepoints", "list", "flights", "--json").json == []
    again = job.run("savepoints", "dispose", "flights", savepoint_id)
    assert (again.code, again.out) == (2, "")
    assert "has no savepoint" in again.err
    assert job.run("savepoints", "validate", "flights", savepoint_id).code == 2
