"""Every block of code on every page is run, or is of a language in which there is nothing to run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from blocks import ROOT, Block, blocks_of, pages
from excused import EXCUSED, walked_by
from givens import GIVEN, file_of, given_to, needs_spark
from reading import SHOWN, TYPED, Reader

WITH_CODE = [page for page in pages() if blocks_of(page)]
WALKED = [page for page in WITH_CODE if walked_by(page)]
TO_READ = [page for page in WITH_CODE if page not in WALKED and any(one.language in TYPED for one in blocks_of(page))]

# Dagster's own loader of YAML uses functions that Pydantic has deprecated, and that Dagster marks as beta or preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* is currently in (beta|preview)"),
]


def key_of(block: Block) -> tuple[str, str]:
    return block.page, block.text.split("\n")[0]


@pytest.mark.parametrize("page", WITH_CODE)
def test_every_block_names_a_language_that_is_tested(page: str) -> None:
    unknown = [f"{one.place}: {one.language!r}" for one in blocks_of(page) if one.language not in {*TYPED, *SHOWN}]
    assert not unknown, f"write the language behind the fence, one of {', '.join(sorted({*TYPED, *SHOWN}))}"


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.spark] if needs_spark(page) else []) for page in TO_READ]
)
def test_the_examples_of_a_page_do_what_it_says(
    page: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        if needs_spark(page):
            stack.enter_context(session_in(tmp_path, request.getfixturevalue("spark"), monkeypatch))
        names = stack.enter_context(given_to(page, request))
        blocks = [block for block in blocks_of(page) if key_of(block) not in EXCUSED]
        Reader(page, tmp_path, names, request.getfixturevalue).read(blocks)


@contextmanager
def session_in(folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets a page have the session of all tests: it cannot stop it, and Spark finds relative paths in its folder."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(hadoop.Path(str(folder)))
    yield
    files.setWorkingDirectory(before)
    left = [query.name for query in spark.streams.active]
    for query in spark.streams.active:
        query.stop()
    assert not left, "the page has left streams running: stop them in its file below tests/pages/given"


def test_what_is_excused_is_on_its_page_and_has_a_reason() -> None:
    blocks = {key_of(block) for page in WITH_CODE for block in blocks_of(page)}
    assert set(EXCUSED) <= blocks
    assert all(reason.endswith(".") and len(reason.split()) > 4 for reason in EXCUSED.values())


@pytest.mark.parametrize("page", WALKED)
def test_another_test_walks_a_page_that_is_not_read_here(page: str) -> None:
    walks = ROOT / (walked_by(page) or "")
    files = [walks] if walks.is_file() else [*walks.rglob("*.py")]
    assert any(Path(page).stem in file.read_text() for file in files), f"{walks} does not name this page"


def test_what_is_given_belongs_to_a_page() -> None:
    assert set(GIVEN.rglob("*.py")) <= {file_of(page) for page in WITH_CODE}
