"""Ports for a broker and its controller."""

import socket


def free_port() -> int:
    """Returns a port such that it and the next one are free."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


__all__ = ["free_port"]
