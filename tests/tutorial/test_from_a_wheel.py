"""All pages of *Start* and of the tutorial, word for word, from the wheel in a new environment: needs a package index.

A function does in Dagster's UI what the numbered lists of a page say, by the requests that its page in a browser sends.
The minutes of each page are printed (`-s` shows them). At the end the tables of the detector are those of the recount.
"""

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from pages import Walk
from test_fraud_detector import GUIDE, PAGES
from test_start import START

from lakestate.demo_report import check_tables, read_output
from lakestate.examples.compare import Truth
from lakestate.examples.fraud.truth import compute_truth

ROOT = Path(__file__).parents[2]
RANGES = 16

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3_000)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=280)
    [wheel] = folder.glob("*.whl")
    return wheel


def new_walk(folder: Path, wheel: Path, clicks: list[Callable[[Walk], None]]) -> Walk:
    """Begins a walk with the variables of a person's shell: none that leads to the checkout."""
    away = ("PYTHONPATH", "VIRTUAL_ENV", "LAKESTATE_ROOT", "DAGSTER_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in away}
    here = str(Path(sys.executable).parent)
    path = [one for one in os.environ["PATH"].split(os.pathsep) if one != here]
    environment["PATH"] = os.pathsep.join(path)
    return Walk(folder, environment, clicks=clicks, instead={'"lakestate[': f'"{wheel}['})


def browser(walk: Walk) -> Any:
    """Returns a client of the Dagster that runs in the other terminal."""
    file = ROOT / "tests" / "dagster" / "graphql_client.py"
    spec = importlib.util.spec_from_file_location("graphql_client_of_the_tutorial", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    until = time.monotonic() + 300
    while not (found := re.search(r"Serving dagster-webserver on (http://127\.0\.0\.1:\d+)", walk.other_terminal)):
        assert time.monotonic() < until, walk.other_terminal[-4000:]
        time.sleep(0.5)
    client = module.GraphQLClient(found[1])
    query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
    while True:
        try:
            [repository] = client.ask(query)["repositoriesOrError"]["nodes"]
            break
        except URLError:  # it says that it serves before it listens
            assert time.monotonic() < until, walk.other_terminal[-4000:]
            time.sleep(0.5)
    module.REPOSITORY["repositoryLocationName"] = repository["location"]["name"]
    module.REPOSITORY["repositoryName"] = repository["name"]
    return client


def take_a_savepoint(job: str, name: str) -> Callable[[Walk], None]:
    def clicks(walk: Walk) -> None:
        client = browser(walk)
        client.add_partition(f"{job}_savepoints", name)
        client.wait_for_run(client.launch_run(f"{job}/savepoint", partition=name))

    return clicks


def restore_all(job: str, name: str) -> Callable[[Walk], None]:
    def clicks(walk: Walk) -> None:
        client = browser(walk)
        partitions = [f"range_{number:02}_of_{RANGES}|{name}" for number in range(RANGES)]
        client.wait_for_backfill(
            client.launch_backfill(f"{job}/restored_state", partitions, config={"rewind": True}), timeout_s=600
        )

    return clicks


def test_start(tmp_path: Path, wheel: Path) -> None:
    with new_walk(tmp_path, wheel, [take_a_savepoint("clicks", "from-dagster")]) as walk:
        for page in START:
            walk.follow(f"start/{page}.md")
            print(f"{page}: {walk.minutes[f'start/{page}.md']} minutes")


def test_the_fraud_detector(tmp_path: Path, wheel: Path) -> None:
    clicks = [take_a_savepoint("detector", "release-2"), restore_all("detector", "release-2")]
    with new_walk(tmp_path, wheel, clicks) as walk:
        for page in PAGES:
            walk.follow(f"{GUIDE}/{page}.md")
            print(f"{page}: {walk.minutes[f'{GUIDE}/{page}.md']} minutes")
        check(walk.cwd)


def check(project: Path) -> None:
    """Compares what does not depend on timers that are due with the recount.

    The savepoint of the first release has four to six files, as far as the machine had come when it was taken.
    """
    (project / "input" / "wrong.json").rename(project / "input" / "payments-99999.json")  # it was read last

    def of_releases(first: int) -> Truth:
        return compute_truth(project / "input", large=lambda file: 8 if file <= first else 5)

    truths = [of_releases(first) for first in (4, 5, 6)]
    truth = truths[-1]
    names = {"late", "malformed", "card/recent", "card/place", "card/total"}
    checks = {one.name: one for one in check_tables(truth, project / "state", project / "tables", "detector")}
    assert not [checks[name] for name in names if any(checks[name].difference)]
    alerts = read_output(project / "tables" / "alerts", truth.outputs["alerts"].schema).to_pylist()
    found = sorted((one["id"], one["rule"], one["detail"]) for one in alerts if one["rule"] != "block")
    expected = [truth.outputs["alerts"].to_pylist() for truth in truths]
    assert found in [sorted((one["id"], one["rule"], one["detail"]) for one in rows) for rows in expected]
    assert any(one["rule"] == "block" for one in alerts)
