"""Requests that any thread may make, and the driver's thread takes up. Pure."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Takes requests from any thread; once it is closed, each is refused: none is forgotten between the two.

    Args:
        refuse: Tells whoever asked that nothing comes of it. It may be called on that thread.
    """

    def __init__(self, refuse: Callable[[T], None]) -> None:
        self._refuse = refuse
        self._requests: deque[T] = deque()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._requests)

    def put(self, request: T) -> None:
        """Adds a request; from any thread."""
        self._requests.append(request)
        if self._closed:
            self._refuse_all()

    def take(self) -> Iterator[T]:
        """Yields the requests that wait, oldest first, each to one taker only."""
        while True:
            try:
                yield self._requests.popleft()
            except IndexError:  # asked afterwards, since another thread may be taking too
                return

    def close(self) -> None:
        """Refuses what waits, and all that comes later; again is harmless."""
        self._closed = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        for request in self.take():
            self._refuse(request)


__all__ = ["Inbox"]
