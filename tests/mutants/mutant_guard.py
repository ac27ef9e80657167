"""Pytest plugin inside a private copy: checks that code is imported from the copy, and records the first failure.

Environment: `MUTANT_COPY` is the root of the copy, `MUTANT_MODULE` the module with the bug (empty without one),
`MUTANT_REPORT` the file that gets the first failure as JSON.
"""

import importlib
import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

BROKEN = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "SyntaxError")
"""A programmer would notice a bug that raises one of these before submitting it, so such a failure is no kill."""

_noted: list[str] = []


def pytest_configure() -> None:
    copy = Path(os.environ["MUTANT_COPY"]).resolve()
    for name in filter(None, ("state_engine", os.environ["MUTANT_MODULE"])):
        file = Path(str(importlib.import_module(name).__file__)).resolve()
        if not file.is_relative_to(copy):
            pytest.exit(f"{name} was imported from {file}, not from the private copy {copy}", returncode=3)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        types = _types_of(call.excinfo.value) if call.excinfo is not None else []
        _note(report.nodeid, report.when, [name for name in types if name in BROKEN])
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note(report.nodeid, "collect", [])


def _types_of(error: BaseException | None) -> list[str]:
    """Lists the names of the types of an error and of the errors that caused it."""
    names: list[str] = []
    while error is not None and len(names) < 20:
        names.append(type(error).__name__)
        error = error.__cause__ or error.__context__
    return names


def _note(test: str, when: str, broken: list[str]) -> None:
    if not _noted:
        _noted.append(test)
        Path(os.environ["MUTANT_REPORT"]).write_text(json.dumps({"test": test, "when": when, "broken": broken}))
