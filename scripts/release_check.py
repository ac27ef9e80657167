"""Checks the archives in `dist/`, and runs the first job of the README from them; `make release-check` calls it.

1. Both archives have the version of the code, and `twine check --strict` accepts them.
2. The wheel that is built from the checkout and the one that is built from the source archive hold the same files.
3. The wheel is installed into an empty environment outside of the checkout, with what it requires and no extra. There
   the job of the README runs, and its state is read.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CLICKS = [{"user": "ann", "page": "/"}, {"user": "bob", "page": "/"}, {"user": "ann", "page": "/cart"}]
LOOK = """
import json
from importlib.metadata import distributions, version
import lakestate, state_engine
from state_engine.inspect import read_state
rows = read_state("state", "clicks", "count", "clicks").to_pylist()
print(json.dumps({
    "packages": sorted({one.metadata["Name"].lower() for one in distributions()} - {"pip", "setuptools"}),
    "versions": [version("lakestate"), state_engine.__version__],
    "files": [lakestate.__file__, state_engine.__file__],
    "clicks": {row["user"]: row["value"] for row in rows},
}))
"""


class Found(NamedTuple):
    """What there is in an environment after the job of the README ran: packages, versions, code, state of the job."""

    packages: list[str]
    versions: list[str]
    files: list[str]
    clicks: dict[str, int]


class CheckFailedError(Exception):
    """A check of the release failed; the message says which one."""


def code_version(root: Path = ROOT) -> str:
    """Returns the version that the code of a checkout has."""
    [version] = re.findall(r'^__version__ = "(.+)"$', (root / "state_engine" / "__init__.py").read_text(), re.M)
    return str(version)


def archives(dist: Path, version: str) -> tuple[Path, Path]:
    """Returns the wheel and the source archive.

    Raises:
        CheckFailedError: The folder holds other files than these two, of this version.
    """
    wheel, source = dist / f"lakestate-{version}-py3-none-any.whl", dist / f"lakestate-{version}.tar.gz"
    found = sorted(path.name for path in dist.iterdir())
    if found != sorted([wheel.name, source.name]):
        raise CheckFailedError(f"{dist} holds {found}, and the code has version {version}: run `make dist` again.")
    return wheel, source


def contents(wheel: Path) -> dict[str, str]:
    """Returns the digest of each file in a wheel."""
    with zipfile.ZipFile(wheel) as file:
        return {name: hashlib.sha256(file.read(name)).hexdigest() for name in file.namelist()}


def check_same(one: Path, other: Path) -> int:
    """Compares two wheels file by file, and returns how many files they hold.

    Raises:
        CheckFailedError: It names the files that differ.
    """
    files, others = contents(one), contents(other)
    differing = sorted(name for name in {*files, *others} if files.get(name) != others.get(name))
    if differing:
        raise CheckFailedError(f"{one} and {other} differ in {', '.join(differing)}.")
    return len(files)


def first_job(readme: str) -> str:
    """Returns the job of the README's first five minutes."""
    [job] = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    return str(job)


def run(command: list[str | Path], cwd: Path) -> str:
    """Runs a command without variables that lead to the checkout, and returns its output."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join(map(str, command))
        raise CheckFailedError(f"{words} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}")
    return done.stdout


def installed(wheel: Path, folder: Path) -> Path:
    """Installs a wheel and what it requires into an empty environment, and returns the folder of its commands."""
    uv = Path(sys.executable).parent / "uv"
    run([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, folder], folder.parent)
    run([uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", wheel], folder.parent)
    return folder / "bin"


def run_first_job(commands: Path, folder: Path) -> Found:
    """Runs the README's job in a folder, and returns what the environment and the job's state are."""
    (folder / "clicks").mkdir(parents=True)
    (folder / "clicks" / "1.json").write_text("\n".join(map(json.dumps, CLICKS)))
    (folder / "clicks.py").write_text(first_job((ROOT / "README.md").read_text(encoding="utf-8")))
    printed = run([commands / "python", "clicks.py"], folder)
    if "/cart" not in printed:
        raise CheckFailedError(f"The job of the README printed:\n{printed}")
    return Found(**json.loads(run([commands / "python", "-c", LOOK], folder)))


def check_run(found: Found, version: str, environment: Path) -> None:
    """Checks what `run_first_job` found.

    Raises:
        CheckFailedError: Another version ran, code came from elsewhere, or the state is wrong.
    """
    if found.versions != [version, version]:
        raise CheckFailedError(f"The environment has versions {found.versions}, not {version}.")
    outside = [file for file in found.files if not Path(file).is_relative_to(environment)]
    if outside:
        raise CheckFailedError(f"Code was imported from {outside}, not from {environment}.")
    if found.clicks != {"ann": 2, "bob": 1}:
        raise CheckFailedError(f"The state of the job is {found.clicks}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the archives")
    parser.add_argument("--at-most", type=int, help="fail if the environment has more packages")
    parser.add_argument("--list", action="store_true", help="print the packages by name")
    options = parser.parse_args()
    version = code_version()
    wheel, source = archives(options.dist.absolute(), version)
    print(run([sys.executable, "-m", "twine", "check", "--strict", wheel, source], ROOT).strip())
    with tempfile.TemporaryDirectory(prefix="lakestate-release-") as temporary:
        folder = Path(temporary).resolve()
        build: list[str | Path] = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir"]
        run([*build, folder / "checkout", ROOT], folder)
        run(["tar", "-xzf", source, "-C", folder], folder)
        run([*build, folder / "source", folder / f"lakestate-{version}"], folder)
        for built in ("checkout", "source"):
            count = check_same(wheel, folder / built / wheel.name)
        print(f"{wheel.name}: {count} files, {wheel.stat().st_size:,} bytes; from checkout and source archive the same")
        found = run_first_job(installed(wheel, folder / "environment"), folder / "run")
        check_run(found, version, folder / "environment")
        packages = found.packages
        print(f"Installed into an empty environment: {len(packages)} packages. The job of the README ran there.")
        if options.list:
            print(" ".join(packages))
        if options.at_most is not None and len(packages) > options.at_most:
            raise CheckFailedError(f"{len(packages)} packages are more than {options.at_most}.")
    print(f"lakestate {version} may be released.")


if __name__ == "__main__":
    try:
        main()
    except CheckFailedError as error:
        raise SystemExit(f"error: {error}") from None
