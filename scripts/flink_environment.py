"""PyFlink in a virtual environment of its own, `.flink/`: it asks for other versions of what Lakestate uses.

Java's Flink comes with it. From where packages come is pip's setting.

    python scripts/flink_environment.py
"""

import subprocess
import venv
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parents[1] / ".flink"
PYFLINK = "2.3.0"
REQUIREMENTS = (f"apache-flink=={PYFLINK}", "setuptools<81")  # Beam of this release asks for pkg_resources


def make_pyflink(place: Path = ENVIRONMENT) -> None:
    """Makes the environment, if it is not there yet."""
    done = place / f".pyflink-{PYFLINK}"
    if done.exists():
        return
    venv.EnvBuilder(with_pip=True, clear=True).create(place)
    subprocess.run([place / "bin" / "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    done.touch()


if __name__ == "__main__":
    make_pyflink()
