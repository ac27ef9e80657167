"""Runs an S3 server on a free port of the loopback, for tests and measurements of jobs in a bucket.

The server is moto's: it needs `moto[s3]`, `flask` and `flask-cors`. It keeps objects in memory, and honours conditional
puts; of several at the same time one wins, as in S3. As a program (`python -m state_engine.testing.s3_server`) it
prints its port, and then a line for each request.
"""

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ACCESS_KEY = "AKIAEXAMPLE"
REGION = "us-east-1"


class S3Request(NamedTuple):
    """One request that was answered.

    `kind` is its method; `LIST` is a listing, and `DELETE` also one that names several objects. `key` is the object, or
    the prefix of the listing.
    """

    status: int
    kind: str
    key: str


class S3Server:
    """A server that runs.

    Args:
        port: Its port.
        log: The file with its requests.
    """

    def __init__(self, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        self._forgotten = 1  # lines of the log: the first is the port

    def environment(self, secret: str = "a secret") -> dict[str, str]:
        """Returns the variables with which Lakestate and delta-rs find the server."""
        return environment_of(self.url, secret)

    def make_bucket(self, name: str) -> str:
        """Makes an empty bucket, and returns its address."""
        self._ask("PUT", name)
        return f"s3://{name}"

    def reset(self) -> None:
        """Removes all buckets, and forgets their requests."""
        self._ask("POST", "moto-api/reset")
        self._forgotten = len(self._log.read_text().splitlines())

    def _ask(self, method: str, path: str) -> None:
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{path}", method=method)):
            pass

    def requests(self, bucket: str) -> list[S3Request]:
        """Returns the requests to a bucket since the last `reset`, in the order of their answers."""
        said = (_parsed(line, bucket) for line in self._log.read_text().splitlines()[self._forgotten :])
        return [request for request in said if request is not None]


def environment_of(url: str, secret: str) -> dict[str, str]:
    """Returns the variables with which Lakestate and delta-rs find an S3 server on this machine."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
    }


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """Runs a server without buckets."""
    with tempfile.TemporaryDirectory(prefix="lakestate-s3-") as folder:
        log, errors = Path(folder) / "requests", Path(folder) / "errors"
        with log.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen([sys.executable, "-m", __name__], stdout=out, stderr=err)
        try:
            yield S3Server(_port_of(process, log, errors), log)
        finally:
            process.kill()
            process.wait(30)


def _port_of(process: "subprocess.Popen[bytes]", log: Path, errors: Path) -> int:
    until = time.monotonic() + 60
    while not (first := log.read_text()).endswith("\n"):
        assert process.poll() is None, f"The S3 server did not start: {errors.read_text()}"
        assert time.monotonic() < until, "The S3 server is not ready."
        time.sleep(0.02)
    return int(first.splitlines()[0])


def _parsed(line: str, bucket: str) -> S3Request | None:
    status, method, target = line.split(" ", 2)
    address = urlsplit(target)
    name, _, key = unquote(address.path).strip("/").partition("/")
    query = parse_qs(address.query, keep_blank_values=True)
    if name != bucket:
        return None
    if method == "GET" and "list-type" in query:
        return S3Request(int(status), "LIST", query.get("prefix", [""])[0])
    return S3Request(int(status), "DELETE" if "delete" in query else method, key)


def _one_at_a_time(application: "WSGIApplication") -> "WSGIApplication":
    """Answers one request after the other: moto looks whether an object exists, and then writes it, without a lock."""
    lock = threading.Lock()

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        with lock:
            return application(environ, start_response)

    return answer


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            sys.stdout.write(f"{int(code)} {self.command} {self.path}\n")  # in one piece: several threads write
            sys.stdout.flush()

    application = _one_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve()


__all__ = ["ACCESS_KEY", "REGION", "S3Request", "S3Server", "environment_of", "s3_server"]
