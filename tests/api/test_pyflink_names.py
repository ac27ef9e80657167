"""The room exports all its names; tests/flink/test_pyflink_api.py compares them with PyFlink's."""

from types import FunctionType

import state_engine.api as api


def test_all_names_are_exported() -> None:
    public = {n for n, v in vars(api).items() if isinstance(v, type | FunctionType)}
    assert public == set(api.__all__)
