"""State of an author's class in a real stream, restarted with a newer version of its codec."""

from pathlib import Path
from typing import Any

import pytest
from support import Input, run_all, state_of

from state_engine.api import KeyedProcessFunction, TypeCodec, ValueStateDescriptor
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


class Tally:
    """Counts of words, in a class that is no dataclass."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts


class ByWord(TypeCodec[Tally]):
    version = 0
    stored_type = dict[str, int]

    def encode(self, value: Tally) -> Any:
        return value.counts

    def decode(self, stored: Any, version: int) -> Tally:
        return Tally(**stored)


class ByWordInCapitals(ByWord):
    """The codec of the newer release: writes capitals, and reads the older release's format."""

    version = 1

    def encode(self, value: Tally) -> Any:
        return {word.upper(): n for word, n in value.counts.items()}

    def decode(self, stored: Any, version: int) -> Tally:
        return Tally(**{word.lower(): n for word, n in stored.items()})


class Count(KeyedProcessFunction):
    def __init__(self, codec: TypeCodec[Tally]) -> None:
        self.codec = codec

    def open(self, runtime_context: Any) -> None:
        self.tally = runtime_context.get_state(ValueStateDescriptor("tally", self.codec))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        tally = self.tally.value() or Tally()
        tally.counts[value.sub] = tally.counts.get(value.sub, 0) + 1
        self.tally.update(tally)
        return [(value.k, sum(tally.counts.values()))]


def test_a_newer_codec_goes_on_with_the_state(spark, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in").add_many(1), tmp_path / "root"

    def run(codec: TypeCodec[Tally], parallelism: int) -> None:
        job = StreamJob("codecs", root=str(root))
        counted = (
            job.from_stream(source.stream(spark)).key_by("k").process(Count(codec), "k string, n int", uid="count")
        )
        counted.sink_to(MemorySink("codecs"), uid="out")
        run_all(job, parallelism=parallelism)

    run(ByWord(), 1)
    source.add_many(1)
    run(ByWordInCapitals(), 2)
    expected: dict[Any, dict[str, int]] = {}
    for record in source.all:
        counts = expected.setdefault(record.k, {})
        counts[record.sub.upper()] = counts.get(record.sub.upper(), 0) + 1
    state = state_of(root, "codecs", "count", "tally")
    versions = {key: stored["codec_version"] for key, stored in state.items()}
    assert 1 in versions.values()
    for key, stored in state.items():
        counts = {word.upper(): n for word, n in dict(stored["value"]).items()}
        assert counts == expected[key], f"{key} of version {versions[key]}"
