"""Environments in which a reader follows the pages: outside the checkout, in empty folders."""

import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

import lakestate
import state_engine

sys.path.insert(0, str(Path(__file__).parent))

SCRIPTS = {
    "lakestate": "from lakestate.cli import app as main",
    "dagster": "from dagster.__main__ import main",
}


@pytest.fixture
def prepared(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Makes an environment in a folder of the reader; returns the variables of the reader's shell.

    Instead of an installation it has a path to the packages of the tests, so no registry is asked. Lakestate itself is
    found as the tests find it. `pip` builds the reader's project with the `setuptools` of the tests.
    """

    def prepare(name: str) -> dict[str, str]:
        folder = tmp_path / name / ".venv"
        venv.create(folder, with_pip=True)
        inside = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
        for shipped in (*inside.glob("setuptools*"), *inside.glob("pkg_resources*"), *inside.glob("_distutils_hack*")):
            shutil.rmtree(shipped)  # some versions of Python ship an old one
        (inside / "distutils-precedence.pth").unlink(missing_ok=True)
        paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        ours = [str(Path(*package.__path__).parent) for package in (lakestate, state_engine)]
        (inside / "locked.pth").write_text("\n".join([*ours, *sorted(paths)]) + "\n")
        for command, line in SCRIPTS.items():
            script = folder / "bin" / command
            script.write_text(f"#!{folder / 'bin' / 'python'}\n{line}\nmain()\n")
            script.chmod(0o755)
        away = ("LAKESTATE_ROOT", "DAGSTER_HOME", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if name not in away}
        return environment | {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    return prepare
