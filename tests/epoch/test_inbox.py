"""Requests from any thread: each is taken or refused, once."""

import threading

from state_engine.epoch.inbox import Inbox


def test_requests_are_taken_in_order_and_once() -> None:
    inbox = Inbox[int](lambda _: None)
    assert not inbox
    inbox.put(1)
    inbox.put(2)
    assert inbox
    assert list(inbox.take()) == [1, 2]
    assert list(inbox.take()) == []


def test_what_comes_after_the_end_is_refused() -> None:
    refused: list[int] = []
    inbox = Inbox[int](refused.append)
    inbox.put(1)
    inbox.close()
    inbox.put(2)
    inbox.close()
    assert refused == [1, 2]
    assert not inbox


def test_none_is_lost_or_answered_twice_while_it_is_closed() -> None:
    for _ in range(50):
        answered: list[int] = []
        inbox = Inbox[int](answered.append)
        begin = threading.Barrier(5)

        def put(first: int, inbox: Inbox[int] = inbox, begin: threading.Barrier = begin) -> None:
            begin.wait(10)
            for number in range(first, first + 50):
                inbox.put(number)

        threads = [threading.Thread(target=put, args=(n * 50,)) for n in range(4)]
        for thread in threads:
            thread.start()
        begin.wait(10)
        answered.extend(inbox.take())
        inbox.close()
        for thread in threads:
            thread.join(10)
        assert sorted(answered) == list(range(200))
