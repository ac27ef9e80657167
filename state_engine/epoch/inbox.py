"""Wishes that any thread may have, and the driver's thread takes up. Pure."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Takes wishes from any thread; once it is closed, each is refused: none is forgotten between the two.

    Args:
        refuse: Tells somebody that his wish comes to nothing. It may be called on his own thread.
    """

    def __init__(self, refuse: Callable[[T], None]) -> None:
        self._refuse = refuse
        self._wishes: deque[T] = deque()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._wishes)

    def put(self, wish: T) -> None:
        """Adds a wish; from any thread."""
        self._wishes.append(wish)
        if self._closed:
            self._refuse_all()

    def take(self) -> Iterator[T]:
        """Yields the wishes that wait, oldest first, each to one taker only."""
        while True:
            try:
                yield self._wishes.popleft()
            except IndexError:  # asked afterwards, since another thread may be taking too
                return

    def close(self) -> None:
        """Refuses what waits, and all that comes later; again is harmless."""
        self._closed = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        for wish in self.take():
            self._refuse(wish)


__all__ = ["Inbox"]
