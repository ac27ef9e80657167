"""Every block of code on every page is run, or is of a language in which there is nothing to run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from blocks import Block, blocks_of, pages
from excused import EXCUSED
from givens import GIVEN, file_of, given_to, needs_spark
from reading import SHOWN, TYPED, Reader

WITH_CODE = [page for page in pages() if blocks_of(page)]
TO_READ = [page for page in WITH_CODE if any(block.language in TYPED for block in blocks_of(page))]

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
        Reader(page, tmp_path, names).read([block for block in blocks_of(page) if key_of(block) not in EXCUSED])


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


def test_what_is_given_belongs_to_a_page() -> None:
    assert set(GIVEN.rglob("*.py")) <= {file_of(page) for page in WITH_CODE}
