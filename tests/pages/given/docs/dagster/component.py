"""The state root that the component's YAML takes from the environment."""


def given(monkeypatch):
    monkeypatch.setenv("LAKESTATE_ROOT", "state")
    yield {}
