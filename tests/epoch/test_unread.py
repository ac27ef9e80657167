"""State in the log that a job's code does not read is named, and refused by a strict start."""

import pytest
from msgspec.structs import replace

from state_engine.api.timers import TimeDomain
from state_engine.backends.schemas import raw_keyed_schema, timer_schema
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.epoch.unread import Unread, unread
from state_engine.errors import UnreadStateError
from state_engine.log.records import DeclaredChanges, Manifest, StateSchema
from state_engine.testing.simulated import Faults
from state_engine.testing.simulated_tasks import KEY, schema
from state_engine.testing.simulator import Simulation, request


@pytest.fixture
def simulation() -> Simulation:
    """A job that has sealed epochs: `count` and `total` have the state `n`."""
    ran = Simulation()
    ran.finish(Faults())
    return ran


def declaring(*states: StateSchema, all_known: bool = True) -> StartRequest:
    """Returns a start: its operator `count` declares these states, and `total` has its own."""
    count, total = request().operators
    count = replace(count, schemas=states, all_known=all_known)
    return replace(request(), operators=(count, replace(total, schemas=(schema("total"),), all_known=True)))


def found(start: StartRequest, target: Manifest) -> list[str]:
    return [str(one) for one in unread(start.operators, target)]


def test_a_state_that_no_operator_asks_for_is_named(simulation: Simulation) -> None:
    target = simulation.head.manifest
    renamed = replace(schema("count"), name="m", schema_id="m")
    assert unread(declaring(renamed).operators, target) == (Unread(uid="count", state="n", kind="keyed"),)
    assert found(declaring(schema("count")), target) == []


def test_an_operator_whose_states_are_not_all_known_is_not_suspected(simulation: Simulation) -> None:
    assert found(declaring(all_known=False), simulation.head.manifest) == []


def test_the_state_of_an_operator_that_is_gone_is_named(simulation: Simulation) -> None:
    total = declaring().operators[1]
    [one] = unread((total,), simulation.head.manifest)
    assert (one.uid, one.state, one.fields) == ("count", "n", ())


@pytest.mark.parametrize("implied", [timer_schema("count", KEY, TimeDomain.EVENT_TIME), raw_keyed_schema("count")])
def test_timers_and_raw_state_belong_to_every_operator(simulation: Simulation, implied: StateSchema) -> None:
    target = simulation.head.manifest
    assert found(declaring(schema("count")), replace(target, schemas=(*target.schemas, implied))) == []


def test_an_operator_that_never_wrote_has_nothing_to_lose(simulation: Simulation) -> None:
    target = simulation.head.manifest
    unwritten = {uid: replace(operator, unwritten=True) for uid, operator in target.operators.items()}
    assert found(declaring(), replace(target, operators=unwritten)) == []


def test_it_is_reported_whether_the_previous_release_read_it(simulation: Simulation) -> None:
    target = next(m for m in manifests(simulation) if m.kind == "epoch" and m.operators["count"].acks)
    reading = [replace(ack, schemas=(schema("count"),)) for ack in target.operators["count"].acks]
    not_reading = [replace(ack, schemas=()) for ack in reading]
    for acks, before in ((reading, False), (not_reading, True), ([*not_reading[1:], reading[0]], False), ([], False)):
        operators = target.operators | {"count": replace(target.operators["count"], acks=tuple(acks))}
        [one] = unread(declaring().operators, replace(target, operators=operators))
        assert one.before is before


def manifests(simulation: Simulation) -> list[Manifest]:
    log = simulation.world.log
    return [log.read(1, epoch).manifest for epoch in log.epochs(1)]


OLD = "struct<a:int,b:string,inner:struct<x:int,y:int>,all:array<struct<p:int,q:int>>>"


@pytest.mark.parametrize(
    ("new", "fields"),
    [
        (OLD, ()),
        ("struct<b:string,a:bigint,all:array<struct<p:int,q:int>>,inner:struct<x:int,y:int>,more:int>", ()),
        ("struct<a:int,inner:struct<x:int,y:int>,all:array<struct<p:int,q:int>>>", ("b",)),
        ("struct<a:int,c:string,inner:struct<x:int>,all:array<struct<q:int>>>", ("b", "inner.y", "all.element.p")),
        ("bigint", ()),
    ],
)
def test_fields_that_the_type_has_no_more_are_named_by_path(
    simulation: Simulation, new: str, fields: tuple[str, ...]
) -> None:
    target = replace(simulation.head.manifest, schemas=(replace(schema("count"), value=OLD), schema("total")))
    start = declaring(replace(schema("count"), value=new, schema_id="new"))
    assert [one.fields for one in unread(start.operators, target)] == ([fields] if fields else [])


def test_a_field_with_an_alias_is_read_and_so_is_what_a_function_migrates(simulation: Simulation) -> None:
    target = replace(
        simulation.head.manifest, schemas=(replace(schema("count"), value="struct<a:int,b:int>"), schema("total"))
    )
    new = replace(schema("count"), value="struct<a:int,c:int>", schema_id="new")
    alias = replace(new, declared=DeclaredChanges(aliases={"c": ("b",)}))
    function = replace(new, declared=DeclaredChanges(migrates_from=("struct<a:int,b:int>",)))
    assert found(declaring(new), target) == ["b of state 'n' of operator 'count'"]
    assert found(declaring(alias), target) == []
    assert found(declaring(function), target) == []


@pytest.mark.parametrize("restore", [False, True])
def test_a_strict_start_is_refused_and_writes_nothing(simulation: Simulation, restore: bool) -> None:
    start = declaring(replace(schema("count"), name="m", schema_id="m"))
    if restore:
        start = replace(start, restore=simulation.restore(simulation.world.log.read(1, 4)).restore)
    before = dict(simulation.world.storage.objects)
    with pytest.raises(UnreadStateError, match=r"does not read.*state 'n' of operator 'count'") as refused:
        simulation.start(replace(start, strict=True))
    assert "with_alias()" in refused.value.action
    assert simulation.world.storage.objects == before
    simulation.start(start)


def test_a_strict_start_of_code_that_reads_all_goes_on(simulation: Simulation) -> None:
    simulation.start(replace(declaring(schema("count")), strict=True))


def test_shapes_know_all_states_only_if_this_is_declared() -> None:
    assert not OperatorShape(uid="a", parallelism=1, max_parallelism=1, keys=()).all_known
