"""Reads single keys from the terminal, without waiting for a line."""

import os
import select
import sys
import time
from types import TracebackType

if sys.platform != "win32":
    import termios
    import tty


class Keyboard:
    """Reads keys as they are pressed. Use as a context manager: it restores the mode of the terminal.

    If standard input is not a terminal, there are no keys.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.platform != "win32" and sys.stdin.isatty()

    def __enter__(self) -> "Keyboard":
        if self._is_terminal:
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_terminal:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def read(self, timeout_s: float) -> str:
        """Waits for keys and returns them; empty if none came in time."""
        if not self._is_terminal:
            time.sleep(timeout_s)
            return ""
        ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
        return os.read(sys.stdin.fileno(), 64).decode("latin-1") if ready else ""


__all__ = ["Keyboard"]
