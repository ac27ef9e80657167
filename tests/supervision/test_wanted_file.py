"""`wanted.json`, the file with the wanted state of a job: a damaged one is refused, never obeyed."""

import contextlib
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from lakestate.plain_json import encode_plain
from lakestate.start_request import StartRequest
from lakestate.supervision.records import VERSION, Attempt, Wanted, WantedFile
from state_engine.errors import CorruptionError, UnsupportedVersionError

REQUEST = StartRequest(
    options={"in": "a\ud800"}, parallelism=2, restore="sp-1", discard_state=("count",), directory="/x"
)
WANTED = Wanted(state="running", since=1_700_000_000_000, request=REQUEST, attempts=(Attempt(started_at=1, cause="é"),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    WantedFile(tmp_path).write(WANTED)
    return tmp_path / "wanted.json"


def test_no_flipped_bit_is_obeyed(path: Path) -> None:
    file, sound = WantedFile(path.parent), path.read_bytes()
    expected = file.read()
    assert expected is not None
    assert expected.request.restore == "sp-1"
    for bit in range(len(sound) * 8):
        flipped = bytearray(sound)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with contextlib.suppress(CorruptionError, UnsupportedVersionError):
            assert file.read() == expected, f"bit {bit}"


def test_an_option_that_was_changed_by_hand_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"sp-1"', b'"sp-2"'))
    with pytest.raises(CorruptionError, match="fails its checksum") as caught:
        WantedFile(path.parent).read()
    assert "lakestate start" in caught.value.action


def test_one_of_the_first_version_had_no_checksum(path: Path) -> None:
    written = msgspec.json.decode(path.read_bytes())
    del written["checksum"]
    path.write_bytes(msgspec.json.encode({**written, "version": 1}))
    read = WantedFile(path.parent).read()
    assert read is not None
    assert (read.request.restore, read.version) == ("sp-1", VERSION)


def test_one_of_an_earlier_release_has_fewer_fields_and_its_own_checksum(path: Path) -> None:
    written = {**msgspec.json.decode(path.read_bytes()), "version": 2, "checksum": ""}
    del written["request"]["trigger_interval_ms"]
    written["checksum"] = f"sha256:{sha256(encode_plain(written)).hexdigest()}"
    path.write_bytes(encode_plain(written))
    read = WantedFile(path.parent).read()
    assert read is not None
    assert (read.request.restore, read.request.trigger_interval_ms, read.version) == ("sp-1", None, VERSION)
    path.write_bytes(encode_plain({**written, "since": 1}))
    with pytest.raises(CorruptionError, match="fails its checksum"):
        WantedFile(path.parent).read()


def test_it_is_written_as_it_was_read(path: Path) -> None:
    file, before = WantedFile(path.parent), path.read_bytes()
    read = file.read()
    assert read is not None
    file.write(read)
    assert path.read_bytes() == before
