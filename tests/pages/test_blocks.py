"""No block of code escapes: each is of a language that is tested, and what is not read here has a reason."""

from pathlib import Path

import pytest
from blocks import ROOT, blocks_of, pages
from excused import EXCUSED, key_of, walked_by
from givens import GIVEN, file_of
from reading import SHOWN, TYPED

WITH_CODE = [page for page in pages() if blocks_of(page)]
WALKED = [page for page in WITH_CODE if walked_by(page)]


@pytest.mark.parametrize("page", WITH_CODE)
def test_every_block_names_a_language_that_is_tested(page: str) -> None:
    unknown = [f"{one.place}: {one.language!r}" for one in blocks_of(page) if one.language not in {*TYPED, *SHOWN}]
    assert not unknown, f"write the language behind the fence, one of {', '.join(sorted({*TYPED, *SHOWN}))}"


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
