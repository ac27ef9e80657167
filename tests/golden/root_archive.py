"""Packs a golden root into an archive, and unpacks it after every digest was compared.

`<version>.tar.xz` has a file `<version>.sha256` beside it with the digest of the whole archive. Its first member,
`SHA256SUMS`, has those of all other members. Both are in the form of the program `sha256sum`.
"""

import io
import lzma
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from state_engine.errors import DamagedFileError

ROOTS = Path(__file__).parent / "roots"
SUFFIX = ".tar.xz"
SUMS = "SHA256SUMS"
_ACTION = "Take the archive from git again; a golden root is never written anew."


def archive_of(version: str) -> Path:
    """Returns where the golden root of a release is."""
    return ROOTS / f"{version}{SUFFIX}"


def versions() -> list[str]:
    """Returns the releases that have a golden root, oldest first."""
    found = [path.name.removesuffix(SUFFIX) for path in ROOTS.glob(f"*{SUFFIX}")]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def pack(folder: Path, archive: Path, wanted: Callable[[str], bool]) -> None:
    """Writes the wanted files below a folder into a new archive, with their times of modification."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [name for path in files if wanted(name := path.relative_to(folder).as_posix())]
    (folder / SUMS).write_text("".join(f"{_digest((folder / name).read_bytes())}  {name}\n" for name in names))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in (SUMS, *names):
            member = tar.gettarinfo(folder / name, name)
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            with (folder / name).open("rb") as file:
                tar.addfile(member, file)
    content = lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    with archive.open("xb") as file:
        file.write(content)
    digest_of(archive).write_text(f"{_digest(content)}  {archive.name}\n")


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a new folder.

    Raises:
        DamagedFileError: The archive or a member has another digest, or a member is missing or not listed. It names the
            file, and nothing was unpacked.
    """
    content = archive.read_bytes()
    if f"{_digest(content)}  {archive.name}\n" != digest_of(archive).read_text():
        raise DamagedFileError(f"{archive} has another SHA-256 than {digest_of(archive).name} says.", action=_ACTION)
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(content))) as tar:
        found = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        data = {name: file.read() for name, file in found.items() if file is not None}
        listed = dict(line.split("  ", 1)[::-1] for line in data.pop(SUMS).decode().splitlines())
        for name in sorted({*data, *listed}):
            if name not in data or _digest(data[name]) != listed.get(name):
                raise DamagedFileError(f"Member {name} of {archive} is not what {SUMS} says.", action=_ACTION)
        folder.mkdir(parents=True)
        tar.extractall(folder, filter="data")


def digest_of(archive: Path) -> Path:
    """Returns the file with the digest of an archive."""
    return archive.with_name(archive.name.removesuffix(SUFFIX) + ".sha256")


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
