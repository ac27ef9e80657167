"""Runs work that must not delay an epoch on a thread of its own."""

import threading
from collections.abc import Callable
from typing import Protocol

Task = Callable[[], None]


class Background(Protocol):
    """Runs tasks one at a time, in order."""

    def submit(self, task: Task) -> None:
        """Runs a task soon; returns at once."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Returns True once all tasks have ended, False if the time is over before that."""
        ...


class Inline:
    """Runs each task before `submit` returns, which raises what the task raises. For tests and the simulator."""

    def submit(self, task: Task) -> None:
        task()

    def wait(self, timeout_s: float | None = None) -> bool:
        return True


class OneThread:
    """A thread that lives while it has tasks.

    A task has to handle its own errors: what it raises goes to `threading.excepthook`, and the next task runs.

    Args:
        name: Name of the thread.
        daemon: Whether the process may end while a task runs. If the task is in native code then, that may crash it.
    """

    def __init__(self, name: str, *, daemon: bool = True) -> None:
        self._name = name
        self._daemon = daemon
        self._tasks: list[Task] = []
        self._changed = threading.Condition()
        self._running = False

    def submit(self, task: Task) -> None:
        with self._changed:
            self._tasks.append(task)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name=self._name, daemon=self._daemon).start()

    def wait(self, timeout_s: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._tasks:
                    self._running = False
                    self._changed.notify_all()
                    return
                task = self._tasks.pop(0)
            try:
                task()
            except BaseException:
                with self._changed:
                    self._running = bool(self._tasks)
                    if self._running:
                        threading.Thread(target=self._run, name=self._name, daemon=self._daemon).start()
                    self._changed.notify_all()
                raise


__all__ = ["Background", "Inline", "OneThread", "Task"]
