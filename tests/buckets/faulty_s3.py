"""An S3 server whose answers fail, are late or get lost: what object stores do now and then, and tests cannot wait for.

It has the part of S3 that clients of object stores need: objects in memory, conditional puts, ranges, lists, access
keys. Requests are by path (`/bucket/key`). Signatures are not checked; a request without the access key is refused.
It is a process of its own, since some clients hold Python's lock while they wait for an answer.

A fault is drawn for each request, from a seed:

* `throttled`: 503, and nothing happened.
* `lost`: what was asked for is done, and the answer is 500.
* `cut`: it is done, and the connection is closed without an answer.
* `slow`: it is done after `LATE_S`, and answered then. A client that does not wait so long tries again meanwhile.

Two faults are no accidents, but stores that a root must not be in:

* `replaces`: a conditional put replaces an object that is there.
* `unsupported`: a conditional put is answered with 501.
"""

import hashlib
import json
import math
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from state_engine.testing.s3_server import ACCESS_KEY, environment_of

LATE_S = 1.5
CONTROL = "/-/faults"
_LISTED = "<ListBucketResult><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>{content}</ListBucketResult>"
_OBJECT = "<Contents><Key>{key}</Key><LastModified>{at}</LastModified><ETag>{tag}</ETag><Size>{size}</Size></Contents>"


class Stored(NamedTuple):
    """An object and when it was put."""

    data: bytes
    at: datetime

    @property
    def tag(self) -> str:
        """Its ETag."""
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


class FaultyServer(ThreadingHTTPServer):
    """Holds the objects by `bucket/key`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, Stored] = {}
        self.lock = threading.Lock()
        self.chances: dict[str, float] = {}
        self.left = math.inf  # how many faults are still played
        self.played: dict[str, int] = {}
        self._random = random.Random(0)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def control(self, wanted: dict[str, float]) -> dict[str, int]:
        """Sets the chance of each fault, with `seed` and `most`; returns how often each was played until then."""
        with self.lock:
            self._random = random.Random(wanted.pop("seed", 0))
            self.left = wanted.pop("most", math.inf)
            self.chances, played = wanted, self.played
            self.played = {}
        return played

    def draw(self) -> str:
        """Returns the fault that the next request meets, or none."""
        with self.lock:
            at = self._random.random()
            for kind, chance in self.chances.items():
                at -= chance
                if at < 0 and self.left > 0:
                    self.left -= 1
                    self.played[kind] = self.played.get(kind, 0) + 1
                    return kind
        return ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body go out together: sent apart, the body waits 40 ms for the acknowledgement of the head.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: FaultyServer
    fault = ""

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).strip("/")

    def parse_request(self) -> bool:
        """Reads the head of a request, and draws its fault."""
        if not super().parse_request():
            return False
        self.fault = self.server.draw() if self.path != CONTROL else ""
        if self.fault == "slow":
            time.sleep(LATE_S)
        if self.fault == "throttled":
            self._body()
            self._refuse(503, "SlowDown")
            self.wfile.flush()
            return False
        return True

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        if self.fault == "cut":
            self.close_connection = True
            return
        if self.fault == "lost":
            status, body, headers = 500, b"<Error><Code>InternalError</Code></Error>", {}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _is_refused(self) -> bool:
        if f"Credential={ACCESS_KEY}/" in self.headers.get("Authorization", ""):
            return False
        self._body()
        self._refuse(403, "AccessDenied")
        return True

    def do_PUT(self) -> None:
        if self._is_refused():
            return
        key, new = self._key(), Stored(self._body(), datetime.now(UTC))
        with self.server.lock:
            is_conditional = self.headers.get("If-None-Match") == "*"
            if is_conditional and self.fault == "unsupported":
                self._refuse(501, "NotImplemented")
                return
            if is_conditional and key in self.server.objects and self.fault != "replaces":
                self._refuse(412, "PreconditionFailed")
                return
            self.server.objects[key] = new
        self._answer(200, ETag=new.tag)

    def do_GET(self) -> None:
        if self._is_refused():
            return
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list(query)
            return
        found = self.server.objects.get(self._key())
        if found is None:
            self._refuse(404, "NoSuchKey")
            return
        facts = {"ETag": found.tag, "Last_Modified": format_datetime(found.at, usegmt=True)}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, found.data, **facts)
            return
        size = len(found.data)
        first = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
        last = min(int(asked[2]), size - 1) if asked[1] and asked[2] else size - 1
        self._answer(206, found.data[first : last + 1], Content_Range=f"bytes {first}-{last}/{size}", **facts)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        if not self._is_refused():
            self.server.objects.pop(self._key(), None)
            self._answer(204)

    def do_POST(self) -> None:
        if self.path == CONTROL:
            self._answer(200, json.dumps(self.server.control(json.loads(self._body()))).encode())
            return
        if self._is_refused():
            return
        body = self._body().decode()
        if "delete" not in parse_qs(urlsplit(self.path).query, keep_blank_values=True):
            self._refuse(501, "NotImplemented")
            return
        keys = re.findall(r"<Key>(.*?)</Key>", body)
        for key in keys:
            self.server.objects.pop(f"{self._key()}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _list(self, query: dict[str, list[str]]) -> None:
        bucket, prefix = self._key(), query.get("prefix", [""])[0]
        after, delimiter = query.get("start-after", [""])[0], query.get("delimiter", [""])[0]
        with self.server.lock:
            objects = sorted(self.server.objects.items())
        found, folders = [], []
        for path, stored in objects:
            key = path.removeprefix(f"{bucket}/")
            if not path.startswith(f"{bucket}/") or not key.startswith(prefix) or key <= after:
                continue
            name, cut, _ = key.removeprefix(prefix).partition(delimiter) if delimiter else (key, "", "")
            if cut:
                folders.append(f"{prefix}{name}{delimiter}")
            else:
                at = stored.at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
                found.append(_OBJECT.format(key=escape(key), at=at, tag=stored.tag, size=len(stored.data)))
        common = [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in dict.fromkeys(folders)]
        self._answer(200, _LISTED.format(count=len(found) + len(common), content="".join(found + common)).encode())


class FaultyS3(NamedTuple):
    """The server's address."""

    url: str

    def environment(self) -> dict[str, str]:
        """Returns the variables with which Lakestate and delta-rs find the server, and wait for half a second."""
        return environment_of(self.url, "a secret") | {"AWS_TIMEOUT": "500ms"}

    def play(self, **chances: float) -> dict[str, int]:
        """Sets the chance of each fault, the `seed`, and after how many faults (`most`) no more are played.

        Returns how often each was played until now.
        """
        data = json.dumps(chances).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + CONTROL, data)) as answer:
            played: dict[str, int] = json.loads(answer.read())
        return played


@contextmanager
def faulty_s3() -> Iterator[FaultyS3]:
    """Runs a server until the block ends; it plays no fault yet."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield FaultyS3(process.stdout.readline().strip())
        finally:
            process.kill()


if __name__ == "__main__":
    with FaultyServer() as server:
        print(server.url, flush=True)
        server.serve_forever()
