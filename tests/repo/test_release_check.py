"""`make release-check` refuses archives that are not those of the code, and runs the README's job elsewhere."""

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import state_engine

ROOT = Path(__file__).parents[2]
README_JOB = "client.await_termination()"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_check", ROOT / "scripts" / "release_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return path


def test_the_version_of_the_code_is_read_without_importing_it(check: ModuleType) -> None:
    assert check.code_version() == state_engine.__version__


@pytest.mark.parametrize(
    "names",
    [
        ["lakestate-0.2.0-py3-none-any.whl"],
        ["lakestate-0.2.0-py3-none-any.whl", "lakestate-0.1.9.tar.gz"],
        ["lakestate-0.2.0-py3-none-any.whl", "lakestate-0.2.0.tar.gz", "lakestate-0.1.9.tar.gz"],
    ],
    ids=["missing", "of another version", "one more"],
)
def test_other_archives_than_those_of_this_version_are_refused(
    check: ModuleType, tmp_path: Path, names: list[str]
) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(check.CheckFailedError, match=r"code has version 0\.2\.0: run `make dist`"):
        check.archives(tmp_path, "0.2.0")


def test_wheels_that_differ_are_refused_with_the_names_of_the_files(check: ModuleType, tmp_path: Path) -> None:
    one = wheel(tmp_path / "one.whl", same="x", changed="x", gone="x")
    other = wheel(tmp_path / "other.whl", same="x", changed="y", added="x")
    assert check.check_same(one, one) == 3
    with pytest.raises(check.CheckFailedError, match=r"differ in added, changed, gone\."):
        check.check_same(one, other)


def test_the_first_job_of_the_readme_is_found(check: ModuleType) -> None:
    job = check.first_job((ROOT / "README.md").read_text(encoding="utf-8"))
    compile(job, "clicks.py", "exec")
    assert README_JOB in job


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"versions": ["0.2.0", "0.1.0"]}, "has versions"),
        ({"files": ["/checkout/state_engine/__init__.py"]}, "imported from"),
        ({"clicks": {"ann": 1, "bob": 1}}, "state of the job"),
    ],
)
def test_a_run_with_other_code_or_another_result_is_refused(
    check: ModuleType, change: dict[str, object], message: str
) -> None:
    sound = check.Found(["lakestate"], ["0.2.0"] * 2, ["/env/lib/state_engine/__init__.py"], {"ann": 2, "bob": 1})
    check.check_run(sound, "0.2.0", Path("/env"))
    with pytest.raises(check.CheckFailedError, match=message):
        check.check_run(sound._replace(**change), "0.2.0", Path("/env"))


def test_a_command_that_fails_is_named_with_its_output(check: ModuleType, tmp_path: Path) -> None:
    script = "import sys; print('so far'); sys.exit('then this')"
    with pytest.raises(check.CheckFailedError, match=r"ended with 1:\nso far\n\nthen this"):
        check.run([sys.executable, "-c", script], tmp_path)


def test_commands_do_not_see_the_checkout(check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script = "import json, os; print(json.dumps('PYTHONPATH' in os.environ))"
    assert json.loads(check.run([sys.executable, "-c", script], tmp_path)) is False


def test_a_golden_root_is_written_only_by_its_own_release() -> None:
    script = ROOT / "tests" / "golden" / "make_root.py"
    refused = subprocess.run([sys.executable, script, "9.9.9"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "cannot write the root of 9.9.9: check out that release" in refused.stderr
