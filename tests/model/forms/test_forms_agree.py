"""Random programs give the same in every form, on every backend, however they are cut, restarted and rescaled.

Every run tries other programs. A failure is shrunk and printed: put the case and the way into `corpus.py`.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from forms import declared, declared_runs, generating, running, window_runs, windows
from forms.corpus import DECLARED, PROGRAMS, WINDOWS
from forms.ways import all_ways
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("LAKESTATE_EXAMPLES", "100"))
"""How many programs of each kind the long run tries, each of them in every way; ten to a test."""
LARGE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@pytest.fixture(autouse=True, scope="module")
def programs_that_are_new() -> Iterator[None]:
    with generating.only_new():
        yield


def forms_and_ways(*, most: int) -> settings:
    return settings(max_examples=most, suppress_health_check=LARGE)


def played(check: Any, case: Any, way: Any) -> None:
    """Checks a case; a failure says what to put into `corpus.py`."""
    try:
        check(case, way)
    except Exception as error:
        error.add_note(f"To play it again: ({case!r}, {way!r})")
        raise


@forms_and_ways(most=settings.default.max_examples)
@given(data=st.data(), case=generating.cases())
def test_a_program_gives_the_same_in_every_form(case: Any, data: Any) -> None:
    played(running.check, case, data.draw(generating.ways_of(case.program)))


@forms_and_ways(most=2 * settings.default.max_examples)
@given(data=st.data(), case=window_runs.cases())
def test_windows_give_the_same_in_every_form(case: Any, data: Any) -> None:
    played(window_runs.check, case, data.draw(window_runs.ways_of(case.program)))


@forms_and_ways(most=settings.default.max_examples)
@given(data=st.data(), case=declared_runs.cases())
def test_what_is_declared_gives_the_same_in_every_form(case: Any, data: Any) -> None:
    played(declared_runs.check, case, data.draw(declared_runs.ways_of(case.program)))


@pytest.mark.parametrize(
    ("check", "find"),
    [
        *((running.check, find) for find in PROGRAMS),
        *((window_runs.check, find) for find in WINDOWS),
        *((declared_runs.check, find) for find in DECLARED),
    ],
)
def test_what_was_found_before(check: Any, find: Any) -> None:
    check(*find)


def in_every_way(test: Any) -> Any:
    """Marks a test of the long run, which takes a minute or two: a budget of time is checked between tests."""
    for mark in (pytest.mark.parametrize("part", range(max(1, EXAMPLES // 10))), pytest.mark.timeout(1800)):
        test = mark(test)
    return pytest.mark.long(test)


@in_every_way
@forms_and_ways(most=10)
@given(case=generating.cases())
def test_a_program_gives_the_same_in_every_way(part: int, case: Any) -> None:
    for way in all_ways(running.forms_of(case.program)):
        played(running.check, case, way)


@in_every_way
@forms_and_ways(most=10)
@given(case=window_runs.cases())
def test_windows_give_the_same_in_every_way(part: int, case: Any) -> None:
    for way in all_ways(sorted(set(windows.forms_of(case.program)))):
        played(window_runs.check, case, way)


@in_every_way
@forms_and_ways(most=10)
@given(case=declared_runs.cases())
def test_what_is_declared_gives_the_same_in_every_way(part: int, case: Any) -> None:
    for way in all_ways(sorted(set(declared.forms_of(case.program)))):
        played(declared_runs.check, case, way)
