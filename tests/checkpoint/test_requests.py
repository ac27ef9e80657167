from state_engine.checkpoint.requests import CheckpointRequest, RequestDecider

PERIODIC = CheckpointRequest("interval", periodic=True)


def asked(name: str) -> CheckpointRequest:
    return CheckpointRequest(name)


def taken(decider: RequestDecider, count: int) -> list[str | None]:
    chosen = [decider.choose(0, None, 0) for _ in range(count)]
    return [request and request.trigger for request in chosen]


def test_people_go_in_order_and_before_the_interval() -> None:
    decider = RequestDecider()
    for request in (PERIODIC, asked("ann"), asked("bob")):
        assert decider.add(request) is None
    assert taken(decider, 4) == ["ann", "bob", "interval", None]


def test_the_interval_waits_at_most_once() -> None:
    decider = RequestDecider()
    assert decider.add(PERIODIC) is None
    assert decider.add(CheckpointRequest("again", periodic=True)) is None
    assert taken(decider, 2) == ["interval", None]


def test_a_full_queue_refuses_the_interval_first_and_then_the_newest() -> None:
    decider = RequestDecider(max_queued=2)
    decider.add(PERIODIC)
    decider.add(asked("ann"))
    assert decider.add(asked("bob")) is PERIODIC
    refused = asked("carl")
    decider.add(refused)
    assert len(decider) == 2
    assert taken(decider, 3) == ["ann", "bob", None]


def test_who_does_not_fit_in_is_given_back() -> None:
    decider = RequestDecider(max_queued=1)
    decider.add(asked("ann"))
    refused = asked("bob")
    assert decider.add(refused) is refused
    assert decider.add(PERIODIC) is PERIODIC


def test_the_pause_holds_for_the_interval_alone() -> None:
    decider = RequestDecider(min_pause_ms=100)
    decider.add(PERIODIC)
    assert decider.choose(0, 1000, 1099) is None
    decider.add(asked("ann"))
    assert decider.choose(0, 1000, 1099) is not None
    assert decider.choose(0, 1000, 1099) is None
    assert decider.choose(0, 1000, 1100) is PERIODIC


def test_none_begins_while_the_maximum_is_under_way() -> None:
    decider = RequestDecider(max_concurrent=2)
    decider.add(asked("ann"))
    assert decider.choose(2, None, 0) is None
    assert decider.choose(1, None, 0) is not None
