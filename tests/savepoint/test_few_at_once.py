"""A few pieces of work at a time: results in order, never more at once, and none after the end."""

import threading
import time

import pytest

from state_engine.savepoint.few_at_once import few_at_once

MANY = 2_000
"""This number of pieces takes seconds: even a busy machine cannot finish them before it is asked to stop."""


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_the_order_of_the_pieces(threads: int) -> None:
    def slower_first(piece: int) -> int:
        time.sleep(0.002 * (10 - piece))
        return piece * piece

    with few_at_once(slower_first, range(10), threads) as results:
        assert list(results) == [piece * piece for piece in range(10)]


def test_no_more_than_the_limit_are_in_work_at_once() -> None:
    inside, most, lock, together = 0, 0, threading.Lock(), threading.Barrier(3, timeout=60)

    def watched(piece: int) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        together.wait()
        with lock:
            inside -= 1

    with few_at_once(watched, range(21), 3) as results:
        list(results)
    assert most == 3


def assert_stopped(done: list[int]) -> None:
    """Asserts that no more work is done, and that most of it was never done."""
    seen = list(done)
    time.sleep(0.05)
    assert done == seen
    assert len(done) < MANY


def test_after_an_error_nothing_more_is_done() -> None:
    done: list[int] = []

    def fails_at_two(piece: int) -> None:
        if piece == 2:
            raise OSError("no room")
        time.sleep(0.005)
        done.append(piece)

    with pytest.raises(OSError, match="no room"), few_at_once(fails_at_two, range(MANY), 2) as results:
        list(results)
    assert_stopped(done)


def test_a_caller_that_stops_iterating_stops_the_work() -> None:
    done: list[int] = []

    def noted(piece: int) -> None:
        time.sleep(0.005)
        done.append(piece)

    with few_at_once(noted, range(MANY), 2) as results:
        next(results)
    assert_stopped(done)


def test_one_piece_has_no_thread_of_its_own() -> None:
    with few_at_once(lambda _: threading.current_thread(), ["only"], 4) as results:
        assert list(results) == [threading.current_thread()]
