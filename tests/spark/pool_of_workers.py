"""A pool of workers without Spark, in its own process: tasks report their worker, wait, or end their worker."""

import os
import resource
import socket
import sys
import time

from state_engine.spark.worker.pool import Worker, WorkerPool, serve_tasks

TELL, WAIT, CRASH, ABORT, END, READ, HELPER = (bytes([letter]) for letter in b"twcaerh")


def run(sock: socket.socket) -> int:
    """Runs a task: the number of its partition, and one letter."""
    number, what = sock.recv(4), sock.recv(1)
    if what == CRASH:
        os._exit(3)
    if what == ABORT:
        os.abort()
    if what == HELPER:  # which outlives its worker
        os.system("sleep 600 >/dev/null 2>&1 </dev/null & echo $! > helper.pid")
        os._exit(3)
    if what == WAIT:
        sock.sendall(os.getpid().to_bytes(4))
        time.sleep(600)
    if what == READ:
        sock.sendall(len(os.read(0, 1)).to_bytes(4))
    else:
        sock.sendall(os.getpid().to_bytes(4))
    return int(what == END or number == b"")


class Telling(WorkerPool):
    """Reports when it has noticed that a worker is done: Spark needs longer than that to send the next task."""

    def _hear(self, worker: Worker) -> None:
        super()._hear(worker)
        print("heard", flush=True)


def main() -> None:
    """Serves at a path, as the daemon does for Spark."""
    path, reuse, grows = sys.argv[1], sys.argv[2] == "reuse", sys.argv[3] == "grows"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    if len(sys.argv) > 4:
        number = int(sys.argv[4])
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))
    print("listening", flush=True)
    Telling(listener, 0, lambda channel: serve_tasks(channel, run, lambda: None, reuse=reuse), grows=grows).serve()


if __name__ == "__main__":
    main()
