"""Each page is read as a reader would read it: its blocks of code run, from top to bottom."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from blocks import blocks_of, pages
from excused import EXCUSED, key_of, walked_by
from givens import generator_of, given_to, needs_spark
from reading import TYPED, Reader

TO_READ = [
    page
    for page in pages()
    if not walked_by(page) and (generator_of(page) or any(block.language in TYPED for block in blocks_of(page)))
]

# Dagster's own loader of YAML uses functions that Pydantic has deprecated, and that Dagster marks as beta or preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* is currently in (beta|preview)"),
]


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
    try:
        yield
        left = [query.name for query in spark.streams.active]
    finally:
        files.setWorkingDirectory(before)
        for query in spark.streams.active:
            query.stop()
    assert not left, "the page has left streams running: stop them in its file below tests/pages/given"
