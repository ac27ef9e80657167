"""Any exception of a sink's function ends the epoch with a named error; nothing else is tested here."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api.output_tag import columns_type
from state_engine.causes import HIDDEN
from state_engine.errors import SinkError
from state_engine.spark.graph.nodes import SinkNode
from state_engine.spark.graph.sinks import ForeachEpochSink
from state_engine.spark.sinks.commits import SinkCommits


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def refusal(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, show_records: bool = True) -> SinkError:
    def function(epoch: Any, rows: pa.Table) -> None:
        raise error

    sink = SinkNode("out", "main", ForeachEpochSink(function))
    node: Any = SimpleNamespace(sinks=[sink], output=columns_type("name string", "the test"), side_outputs={})
    nothing: Any = None
    sinks = SinkCommits("job", [node], nothing, nothing, lambda *_: None, show_records=show_records)
    monkeypatch.setattr(sinks, "_staged", lambda files: pa.table({"name": ["ann-4711"]}))
    monkeypatch.setattr(sinks._identity, "is_current", lambda *_: True)
    ack = SimpleNamespace(outputs=[SimpleNamespace(output="out")])
    operators = {"op": SimpleNamespace(acks=[ack])}
    sealed: Any = SimpleNamespace(manifest=SimpleNamespace(generation=1, epoch=3, operators=operators))
    with pytest.raises(SinkError) as refused:
        sinks.commit(sealed)
    return refused.value


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError("no such host"), "OSError: no such host."),
        (SystemExit(3), "SystemExit: 3."),
        (GeneratorExit(), "GeneratorExit."),
        (Mute(), "Mute: <its str() raised ValueError>."),
    ],
)
def test_what_a_sink_raises_is_named(monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str) -> None:
    assert refusal(monkeypatch, error).message == f"Sink 'out' of job 'job' did not take epoch 3: {line}"


def test_a_long_message_of_a_sink_keeps_its_class_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(monkeypatch, ValueError("x" * 20_000 + " end")).message
    assert "ValueError: xxx" in message
    assert message.endswith(" end.")
    assert len(message) < 1_200


def test_without_records_a_sink_is_named_without_its_rows_and_without_a_cause_that_quotes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = refusal(monkeypatch, ValueError("cannot take ann-4711"), show_records=False)
    assert refused.message.endswith(f"ValueError: cannot take {HIDDEN}.")
    assert refused.__cause__ is None
    assert refused.__suppress_context__
