"""A driver without an engine, which does what its option `plan` says; it gets the arguments of a runner.

run        serves until it gets SIGTERM, or its REST server gets a request for /end
parent     the same, with a child that does not end by itself, as a JVM
slow       lives, but serves nothing
mute       publishes an endpoint, does not listen there, and does not end by SIGTERM
finish     its input ends at once
fail       fails with a named error
broken     ends before the job runs
die        is killed while the job runs
"""

import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from lakestate.control import Endpoint, publish_endpoint
from lakestate.runner_events import Failed, Finished, Started, encode_event

JOB, ROOT = sys.argv[1], sys.argv[3]
PLAN = next(one for one in sys.argv if one.startswith("plan=")).removeprefix("plan=")
stopped = threading.Event()
asked = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"incarnation": "abc", "state": "RUNNING"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/end":
            asked.set()
            stopped.set()

    def log_message(self, *_: object) -> None:
        pass


def tell(event: Started | Finished | Failed) -> None:
    os.write(1, encode_event(event))


def serve() -> None:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with publish_endpoint(ROOT, JOB, Endpoint(url=url, pid=os.getpid(), incarnation="abc")):
        stopped.wait()
    tell(Finished(stopped=True, epoch=9, spark_jobs=2, by_signal=not asked.is_set()))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None if PLAN == "mute" else stopped.set())
    print("arguments:", *sys.argv[1:], file=sys.stderr, flush=True)
    if PLAN == "broken":
        sys.exit("ImportError: no such module")
    tell(Started(job=JOB, generation=1, epoch=7))
    if PLAN == "slow":
        stopped.wait()
        tell(Finished(stopped=True, epoch=7, spark_jobs=0, by_signal=True))
    elif PLAN == "mute":
        with publish_endpoint(ROOT, JOB, Endpoint(url="http://127.0.0.1:1", pid=os.getpid(), incarnation="abc")):
            threading.Event().wait()
    elif PLAN == "finish":
        tell(Finished(stopped=False, epoch=9, spark_jobs=2))
    elif PLAN == "fail":
        tell(Failed(error="UserFunctionError", message="It raised.", action="Correct it."))
        sys.exit(1)
    elif PLAN == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        if PLAN == "parent":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            (Path(ROOT) / "child").write_text(str(child.pid))
        serve()


main()
