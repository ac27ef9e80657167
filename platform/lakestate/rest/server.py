"""Runs the REST server on a thread of the process that runs the job."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import uvicorn

from lakestate.rest.app import make_app
from lakestate.rest.calls import Cluster
from lakestate.rest.guard import Guard
from lakestate.rest.job_port import JobControl
from lakestate.rest.operations import Operations
from lakestate.rest.triggers import Ended
from state_engine.clock import SystemClock
from state_engine.errors import LakestateError

LOOPBACK = "127.0.0.1"
DELIVERY_S = 5.0
"""How long an unread result stays available after the job's end; Flink's client asks at least every 2 s."""
_POLL_S = 0.02
_START_S = 30.0


class ServerNotStartedError(LakestateError):
    """The REST server cannot listen."""


class RestServer:
    """A running server.

    Args:
        url: Where it listens.
        operations: The operations that clients requested.
    """

    def __init__(self, url: str, operations: Operations) -> None:
        self.url = url
        self._operations = operations

    @property
    def ends(self) -> list[Ended]:
        """The results of the operations that ended in the last minutes."""
        return self._operations.registry.ends()

    def deliver(self, stop: threading.Event, within_s: float = DELIVERY_S) -> None:
        """Waits until operations have ended and clients have read their results.

        Args:
            stop: Once set, the wait ends.
            within_s: How long to wait for clients once no operation is under way.
        """
        registry = self._operations.registry
        while registry.running and not stop.wait(_POLL_S):
            pass
        end = time.monotonic() + within_s
        while registry.unread and time.monotonic() < end and not stop.wait(_POLL_S):
            pass


@contextlib.contextmanager
def serve(
    jobs: Sequence[JobControl], *, host: str = LOOPBACK, port: int = 0, token: str | None = None
) -> Iterator[RestServer]:
    """Serves some jobs of this process until the block ends.

    Args:
        jobs: The jobs to serve.
        host: Address to listen on; without a token only a loopback address.
        port: Port to listen on; 0 for a free one.
        token: The token that requests must carry; null for none.

    Raises:
        UnsafeAddressError: The server would be open to anyone.
        ServerNotStartedError: It cannot listen there.
    """
    guard, now_ms = Guard(host, token), SystemClock().now_ms
    operations = Operations(now_ms)
    app = make_app(Cluster({job.job_id: job for job in jobs}, operations, now_ms), guard)
    with contextlib.closing(_listen(host, port)) as listening:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
            limit_concurrency=256,
            ws="none",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), name="rest", daemon=True)
        thread.start()
        try:
            _await_start(server, thread)
            yield RestServer(_url(listening), operations)
        finally:
            server.should_exit = True
            thread.join(timeout=_START_S)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServerNotStartedError(
            f"The REST server cannot listen on {host}, port {port}: {error}.",
            action="Give another --rest-port or --rest-address.",
        ) from error


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    end = time.monotonic() + _START_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise ServerNotStartedError("The REST server did not start.", action="See the log of the process.")
        time.sleep(_POLL_S)


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


__all__ = ["DELIVERY_S", "LOOPBACK", "RestServer", "ServerNotStartedError", "serve"]
