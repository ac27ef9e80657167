"""A few pieces of work at a time: all in order, never more than that, and none behind the end."""

import threading
import time

import pytest

from state_engine.savepoint.few_at_once import few_at_once

MANY = 2_000
"""Pieces that take seconds, so that a busy machine cannot get through them before it is told to stop."""


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_the_order_of_the_pieces(threads: int) -> None:
    def slower_first(piece: int) -> int:
        time.sleep(0.002 * (10 - piece))
        return piece * piece

    with few_at_once(slower_first, range(10), threads) as found:
        assert list(found) == [piece * piece for piece in range(10)]


def test_so_many_are_in_the_works_and_no_more() -> None:
    inside, most, lock, together = 0, 0, threading.Lock(), threading.Barrier(3, timeout=60)

    def watched(piece: int) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        together.wait()
        with lock:
            inside -= 1

    with few_at_once(watched, range(21), 3) as found:
        list(found)
    assert most == 3


def assert_stopped(done: list[int]) -> None:
    """Nothing is done any more, and far from all was."""
    seen = list(done)
    time.sleep(0.05)
    assert done == seen
    assert len(done) < MANY


def test_behind_an_error_nothing_more_is_done() -> None:
    done: list[int] = []

    def fails_at_two(piece: int) -> None:
        if piece == 2:
            raise OSError("no room")
        time.sleep(0.005)
        done.append(piece)

    with pytest.raises(OSError, match="no room"), few_at_once(fails_at_two, range(MANY), 2) as found:
        list(found)
    assert_stopped(done)


def test_who_stops_asking_stops_the_work() -> None:
    done: list[int] = []

    def noted(piece: int) -> None:
        time.sleep(0.005)
        done.append(piece)

    with few_at_once(noted, range(MANY), 2) as found:
        next(found)
    assert_stopped(done)


def test_one_piece_has_no_thread_of_its_own() -> None:
    with few_at_once(lambda _: threading.current_thread(), ["only"], 4) as found:
        assert list(found) == [threading.current_thread()]
