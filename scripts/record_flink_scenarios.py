"""Records the scenarios of tests/golden/flink from PyFlink, in an environment of its own.

Makes the environment in `.flink/` first: PyFlink in a virtual environment, and the jars of Flink's own test harness.
Needs Python 3.11 or 3.12, Java 17 or 21 and Maven on PATH; from where packages come is pip's and Maven's setting.
The result is JSON in tests/golden/flink/recorded, which is committed.

    python scripts/record_flink_scenarios.py                    # all groups
    python scripts/record_flink_scenarios.py ttl event_timers   # some
    python scripts/record_flink_scenarios.py ttl --only map_per_entry   # shows, writes nothing
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from flink_environment import ENVIRONMENT, PYFLINK, make_pyflink

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "tests" / "golden" / "flink"
RECORDER = ROOT / "scripts" / "flink_recorder"
TEST_JARS = (
    ("flink-runtime", "test-jar"),  # KeyedOneInputStreamOperatorTestHarness and its relatives
    ("flink-test-utils-junit", "jar"),  # a class that the harness needs
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    all_groups = sorted(file.stem for file in (SCENARIOS / "scenarios").glob("*.py"))
    parser.add_argument("groups", nargs="*", choices=[*all_groups, []], metavar="group", help=", ".join(all_groups))
    parser.add_argument("--only", nargs="+", help="scenarios to run and show, without writing; needs one group")
    parser.add_argument("--environment", type=Path, default=ENVIRONMENT, help="where the environment is or is made")
    given = parser.parse_args()
    environment = given.environment.resolve()
    make_environment(environment)
    failed = [group for group in given.groups or all_groups if not record(environment, group, given.only)]
    if failed:
        sys.exit(f"not recorded: {', '.join(failed)}")


def make_environment(place: Path) -> None:
    """Makes what is not there yet."""
    done = place / f".made-{PYFLINK}"
    make_pyflink(place)
    if done.exists():
        return
    dependencies = "".join(
        f"<dependency><groupId>org.apache.flink</groupId><artifactId>{name}</artifactId>"
        f"<version>{PYFLINK}</version><type>{kind}</type></dependency>"
        for name, kind in TEST_JARS
    )
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>recorder</groupId><artifactId>recorder</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pom.xml").write_text(project, encoding="utf-8")
        goal = ["dependency:copy-dependencies", "-DexcludeTransitive=true", f"-DoutputDirectory={place / 'jars'}"]
        subprocess.run(["mvn", "--quiet", "--batch-mode", *goal], check=True, cwd=folder)
    done.touch()


def record(environment: Path, group: str, only: list[str] | None) -> bool:
    """Records a group in a process of its own, with a JVM of its own; returns whether all went well."""
    python = environment / "bin" / "python"
    variables = {
        "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(SCENARIOS), str(RECORDER)]),
        "SCENARIOS_ON": "pyflink",
        "FLINK_TESTING": "1",  # PyFlink's launcher then adds the jars of FLINK_TEST_LIBS
        "FLINK_TEST_LIBS": str(environment / "jars" / "*.jar"),
        "FLINK_LOG_DIR": str(environment / "log"),
    }
    (environment / "log").mkdir(exist_ok=True)
    command = [python, RECORDER / "record.py", group, *(["--only", *only] if only else [])]
    return subprocess.run(command, env=os.environ | variables, check=False).returncode == 0


if __name__ == "__main__":
    main()
