"""The contract of topologies: ours keep it, and what breaks it is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Layout, Range, Spec, lay_out
from kit.exchange.plan import GRAD, Add, Apply, Group, Op, Plan, Send
from kit.exchange.topologies.counting import ExchangeCost, Loads
from kit.exchange.topologies.gossip import Gossip
from kit.exchange.topologies.mesh import Mesh
from kit.exchange.topologies.ps import ParameterServer
from kit.exchange.topologies.ring import Ring
from kit.exchange.topologies.ring_whole import WholeRing
from kit.exchange.topologies.topology import Topology, registered, steps_to_all
from kit.testing import check_topology
from kit.trace.traffic import TransferKind
from tests.cases import for_each


@pytest.mark.slow
@pytest.mark.parametrize("topology", registered(), ids=lambda item: item.name)
def test_our_topologies_keep_the_contract(topology: Topology) -> None:
    before = list(registered())
    # Servers that take no part only number the workers otherwise.
    check_topology(topology, servers=(1, 2) if topology.needs_ps else (0, 2))

    assert list(registered()) == before  # the first one is a group's default


AGREEING = [topology for topology in registered() if topology.agrees]


@pytest.mark.parametrize("topology", AGREEING, ids=lambda item: item.name)
def test_our_plans_let_parameters_overwrite_gradients(topology: Topology) -> None:
    layout = lay_out([Spec("w", (9,), "float32")], 3)
    group = Group((0,), (1, 2, 3), ((layout.buckets[0].range,),))

    assert all(plan.overwrites for plan in topology.plans(layout, group).values())


class Backwards(Ring):
    """Says of a ring that it adds the other way round."""

    def order(self, n: int, chunk: int) -> Any:
        return super().order(n, chunk)[::-1]


Change = Callable[..., Plan | None]
BROKEN: list[tuple[Topology, str]] = []  # and what is said of each


def altered(said: str, of: type[Topology], **changes: Any) -> None:
    """Have a topology tried of which some methods do something else."""
    changed: type[Topology] = type("Altered", (of,), changes)
    BROKEN.append((changed(), said))


def breaks(
    said: str, of: type[Topology] = Ring, **more: Any
) -> Callable[[Change], Change]:
    """Have a topology tried of which the decorated function changes all plans."""

    def note(change: Change) -> Change:
        def plan(self: Topology, *about: Any) -> Plan | None:
            plan = of.plan(self, *about)
            return plan and change(plan, *about)

        altered(said, of, plan=plan, **more)
        return change

    return note


def but(plan: Plan, change: Callable[[Any], Any]) -> Plan:
    """Return a plan of which each operation of the first part is changed, or gone."""
    reduce = tuple(tuple(filter(None, map(change, ops))) for ops in plan.reduce)
    return plan._replace(reduce=reduce)


def sending(plan: Plan, **changes: Any) -> Plan:
    """Return a plan whose messages of the first part are sent otherwise."""
    return but(plan, lambda op: op._replace(**changes) if isinstance(op, Send) else op)


@breaks("worker:0 gets another plan each time that it is made")
def moody(plan: Plan, *_: Any, times: Iterator[int] = count()) -> Plan:  # noqa: B008
    return plan._replace(placed=bool(next(times) % 2))


@breaks("the plan of worker:0 reduces 1 buckets; .* each of the 2")
def short(plan: Plan, *_: Any) -> Plan:
    return plan._replace(reduce=plan.reduce[:-1])


@breaks(r"worker:0 does Send\(to=0.* with itself")
def vain(plan: Plan, _: Layout, __: Group, member: int) -> Plan:
    return sending(plan, to=member)


@breaks(r"worker:0 does Send\(to=99.*there is no member 99")
def lost(plan: Plan, *_: Any) -> Plan:
    return sending(plan, to=99)


@breaks("its range is not whole items of one bucket")
def crooked(plan: Plan, *_: Any) -> Plan:
    return but(plan, lambda op: op._replace(range=Range(op.range.lo + 1, op.range.hi)))


@breaks("there is no region 99")
def elsewhere(plan: Plan, *_: Any) -> Plan:
    return sending(plan, region=99)


@breaks(r"these wait for ever: member 1 for Receive\(source=0")
def silent(plan: Plan, _: Layout, __: Group, member: int) -> Plan | None:
    return plan if member else None


@breaks(r"nobody takes what member 1 sends: Send\(to=0")
def chatty(plan: Plan, layout: Layout, group: Group, member: int) -> Plan:
    about = layout.buckets[0].range, TransferKind.REDUCE
    more = Send(group.workers[member - 1], GRAD, *about)
    return plan._replace(finish=(*plan.finish, more)) if member else plan


@breaks(r"member 1 sends Send.*where member 2 expects Receive")
def confused(plan: Plan, _: Layout, __: Group, member: int) -> Plan:
    return sending(plan, kind=TransferKind.PUSH) if member else plan


@breaks("owners and plans disagree about whether worker:0 updates byte")
def lazy(plan: Plan, *_: Any) -> Plan:
    kept = tuple(op for op in plan.finish if not isinstance(op, Apply))
    return plan._replace(finish=kept)


@breaks("worker:0 has the sum of byte .* added in another order", Mesh)
def backwards(plan: Plan, *_: Any) -> Plan:
    def turned(op: Op) -> Op:
        return op._replace(terms=op.terms[::-1]) if isinstance(op, Add) else op

    return but(plan, turned)


@breaks("worker:0 has a wrong number at byte .* a gradient is missing", Mesh)
def deaf(plan: Plan, *_: Any) -> Plan:
    return but(plan, lambda op: None if isinstance(op, Add) else op)


@breaks("a range was written before its reader had read it", WholeRing)
def hasty(plan: Plan, *_: Any) -> Plan:
    """Do not wait until the successor has read the gradient that is overwritten."""
    return but(plan, lambda op: op if op.range.size else None)


@breaks("owners and plans disagree about whether worker:0 updates byte", Gossip)
def updating(plan: Plan, layout: Layout, *_: Any) -> Plan:
    return plan._replace(finish=(Apply(layout.buckets[0].range),))


@breaks("does something else than worker:0 would do in its place", turns=True)
def lopsided(plan: Plan, _: Layout, group: Group, member: int) -> Plan:
    if member != group.workers[-1]:
        return plan
    *ops, last = plan.reduce[0]
    return plan._replace(reduce=((*ops, last, last), *plan.reduce[1:]))


altered(
    "added in another order; .* the order of the neighbourhood",
    Gossip,
    plan=lambda _, *about: Gossip().plan(*about),
    neighbourhood=lambda *about: Gossip.neighbourhood(*about)[::-1],
)
altered(
    "worker:0 weighs 2 in all means together, not 1",
    Gossip,
    neighbourhood=lambda _, group, worker: tuple({group.workers[0]: 0, worker: 0}),
)
altered(
    "2 of 3 workers never hear of the first one",
    Gossip,
    neighbourhood=lambda _, __, worker: (worker,),
)
altered(
    "byte 0 is in 2 ranges of owners, not 1",
    Ring,
    owners=lambda *about: 2 * Ring.owners(*about),
)
altered(
    "traffic says 68 of REDUCE from worker:0 to worker:1.* 64 bytes",
    Ring,
    traffic=lambda *about: {key: n + 4 for key, n in Ring.traffic(*about).items()},
)
altered("n_messages is 1, and the plans send 24", Ring, n_messages=lambda *_: 1)
altered(
    r"rows are \(\(0, 1, 2\), \(0, 1, 2\)\); give each member",
    Ring,
    rows=lambda _, group: (group.workers, group.workers),
)


class Cheap(ParameterServer):
    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        way, whole = super().loads(n, n_ps, n_bytes, n_buckets)
        return way, ExchangeCost(whole.messages, whole.moved / 2, whole.worked)


BROKEN += [
    (Cheap(), r"loads says moved=\d+ of all tasks; the plans have"),
    (Backwards(), "added in another order; chunk c of n"),
]


@for_each(("topology", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_what_a_topology_breaks_is_named(topology: Topology, said: str) -> None:
    servers = [1] if topology.needs_ps else [0]
    tried = [[Spec("w", (24,), "float32")]]

    with pytest.raises(
        AssertionError, match=rf"(?s)topology '.*with 3 workers.*{said}"
    ):
        check_topology(topology, workers=[3], servers=servers, models=tried)


class Coarse(Mesh):
    """Sends whole words of four bytes, as if all numbers had so many."""

    name = "coarse"

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        plan = super().plan(layout, group, member)
        if plan is None:
            return None
        finish = tuple(map(_whole_words, plan.finish))
        return but(plan, _whole_words)._replace(finish=finish)


def _whole_words(op: Op) -> Op:
    return op._replace(range=Range(op.range.lo // 4 * 4, op.range.hi // 4 * 4))


@pytest.mark.slow
def test_topology_that_only_trainings_can_use_is_named_as_a_groups_algorithm() -> None:
    before = registered()
    tried = [[Spec("w", (24,), "float32")]]
    said = r"'coarse' as the algorithm of a group of 2 tasks: all_reduce of int8\[11\]"

    check_topology(Coarse(), workers=[1], models=tried)
    with pytest.raises(AssertionError, match=f"{said}.* is added wrongly on worker:"):
        check_topology(Coarse(), workers=[2], models=tried)
    assert registered() == before


@pytest.mark.slow
def test_another_graph_of_gossip_is_another_neighbourhood() -> None:
    class Cube(Gossip):
        """Workers at the corners: neighbours differ in one bit of their ranks."""

        def neighbourhood(self, group: Group, worker: int) -> tuple[int, ...]:
            rank = group.workers.index(worker)
            ranks = sorted({rank, *(rank ^ bit for bit in (1, 2, 4))})
            return tuple(group.workers[item] for item in ranks)

    tried = [[Spec("w", (24,), "float32")]]
    check_topology(Cube(), workers=[8], servers=[0, 1], models=tried)
    assert steps_to_all(Cube(), Group((), tuple(range(8)), ())) == 3


def test_order_that_is_not_promised_is_kept_by_any_sum() -> None:
    check_topology(Backwards(), workers=[3], servers=[0], exact=False)


def test_nothing_to_try_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="nothing to try topology 'ps'"):
        check_topology(ParameterServer(), servers=[0])


@pytest.mark.slow
def test_a_plan_is_all_that_a_topology_needs() -> None:
    class Plain(Topology):
        name = "plain"

        def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
            return Mesh().plan(layout, group, member)

    check_topology(Plain(), workers=[1, 3], servers=[0, 1])
