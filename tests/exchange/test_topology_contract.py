"""The contract of topologies: ours keep it, and what breaks it is named."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Layout, Range, Spec, lay_out
from kit.exchange.plan import GRAD, Add, Apply, Group, Op, Owned, Plan, Send
from kit.exchange.topologies.counting import ExchangeCost, Loads, Traffic
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
    group = (
        Group((), (0, 1, 2), ()) if not topology.needs_ps else server_and_three(layout)
    )

    assert all(plan.overwrites for plan in topology.plans(layout, group).values())


def server_and_three(layout: Layout) -> Group:
    return Group((0,), (1, 2, 3), ((layout.buckets[0].range,),))


class Changed(Ring):
    """A ring of which a worker's plan is another one."""

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        plan = super().plan(layout, group, member)
        return plan and self.changed(plan, layout, group, member)

    def changed(
        self, plan: Plan, layout: Layout, group: Group, member: int
    ) -> Plan | None:
        raise NotImplementedError


def but(plan: Plan, change: Any) -> Plan:
    """Return a plan of which each operation of the first part is changed, or gone."""
    reduce = tuple(tuple(filter(None, map(change, ops))) for ops in plan.reduce)
    return plan._replace(reduce=reduce)


class Moody(Changed):
    times = count()

    def changed(self, plan: Plan, *_: Any) -> Plan:
        return plan._replace(placed=bool(next(self.times) % 2))


class Short(Changed):
    def changed(self, plan: Plan, *_: Any) -> Plan:
        return plan._replace(reduce=plan.reduce[:-1])


class Vain(Changed):
    def changed(self, plan: Plan, _: Layout, __: Group, member: int) -> Plan:
        return but(plan, lambda op: op._replace(to=member) if is_send(op) else op)


class Lost(Changed):
    def changed(self, plan: Plan, *_: Any) -> Plan:
        return but(plan, lambda op: op._replace(to=99) if is_send(op) else op)


class Crooked(Changed):
    def changed(self, plan: Plan, *_: Any) -> Plan:
        return but(
            plan, lambda op: op._replace(range=op.range._replace(lo=op.range.lo + 1))
        )


class Elsewhere(Changed):
    def changed(self, plan: Plan, *_: Any) -> Plan:
        return but(plan, lambda op: op._replace(region=99) if is_send(op) else op)


class Silent(Changed):
    def changed(self, plan: Plan, layout: Layout, group: Group, member: int) -> Any:
        return plan if member != group.workers[0] else None


class Chatty(Changed):
    def changed(self, plan: Plan, layout: Layout, group: Group, member: int) -> Plan:
        more = Send(group.workers[member - 1], GRAD, layout.buckets[0].range,
                    TransferKind.REDUCE)  # fmt: skip
        return plan._replace(finish=(*plan.finish, more)) if member else plan


class Confused(Changed):
    def changed(self, plan: Plan, _: Layout, __: Group, member: int) -> Plan:
        other = TransferKind.PUSH
        return but(
            plan, lambda op: op._replace(kind=other) if member and is_send(op) else op
        )


class Lazy(Changed):
    def changed(self, plan: Plan, *_: Any) -> Plan:
        return plan._replace(
            finish=tuple(op for op in plan.finish if not isinstance(op, Apply))
        )


class Greedy(Ring):
    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        return (*super().owners(layout, group), *super().owners(layout, group))


class Backwards(Mesh):
    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        plan = super().plan(layout, group, member)
        return plan and but(
            plan,
            lambda op: op._replace(terms=op.terms[::-1]) if isinstance(op, Add) else op,
        )


class Deaf(Mesh):
    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        plan = super().plan(layout, group, member)
        return plan and but(plan, lambda op: None if isinstance(op, Add) else op)


class Hasty(WholeRing):
    """Does not wait until its successor has read the gradient that it overwrites."""

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        plan = super().plan(layout, group, member)
        return plan and but(plan, lambda op: op if op.range.size else None)


class Contrary(Gossip):
    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        return Gossip().plan(layout, group, member)

    def neighbourhood(self, group: Group, worker: int) -> tuple[int, ...]:
        return super().neighbourhood(group, worker)[::-1]


class Famous(Gossip):
    def neighbourhood(self, group: Group, worker: int) -> tuple[int, ...]:
        return tuple(dict.fromkeys((group.workers[0], worker)))


class Lonely(Gossip):
    def neighbourhood(self, group: Group, worker: int) -> tuple[int, ...]:
        return (worker,)


class Updating(Gossip):
    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        plan = super().plan(layout, group, member)
        return plan and plan._replace(finish=(Apply(layout.buckets[0].range),))


class Lopsided(Ring):
    """Workers that hand out what they have summed up in orders of their own."""

    turns = True

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        plan = super().plan(layout, group, member)
        if plan is None or member != group.workers[-1]:
            return plan
        *ops, last = plan.reduce[0]
        return plan._replace(reduce=((*ops, last, last), *plan.reduce[1:]))


class Boastful(Ring):
    def traffic(self, layout: Layout, group: Group) -> Traffic:
        return {key: n + 4 for key, n in super().traffic(layout, group).items()}


class Modest(Ring):
    def n_messages(self, layout: Layout, group: Group) -> int:
        return 1


class Cheap(ParameterServer):
    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        way, whole = super().loads(n, n_ps, n_bytes, n_buckets)
        return way, ExchangeCost(whole.messages, whole.moved / 2, whole.worked)


class Doubled(Ring):
    def rows(self, group: Group) -> tuple[tuple[int, ...], ...]:
        return (group.workers, group.workers)


def is_send(op: Op) -> bool:
    return isinstance(op, Send)


@for_each(
    ("topology", "said"),
    [
        (Moody(), "worker:0 gets another plan each time that it is made"),
        (Short(), "the plan of worker:0 reduces 1 buckets; .* each of the 2"),
        (Vain(), r"worker:0 does Send\(to=0.* with itself"),
        (Lost(), r"worker:0 does Send\(to=99.*there is no member 99"),
        (Crooked(), "its range is not whole items of one bucket"),
        (Elsewhere(), "there is no region 99"),
        (Silent(), r"these wait for ever: member 1 for Receive\(source=0"),
        (Chatty(), r"nobody takes what member 1 sends: Send\(to=0"),
        (Confused(), r"member 1 sends Send.*where member 2 expects Receive"),
        (Lazy(), "owners and plans disagree about whether worker:0 updates byte"),
        (Greedy(), "byte 0 is in 2 ranges of owners, not 1"),
        (Backwards(), "worker:0 has the sum of byte .* added in another order"),
        (Deaf(), "worker:0 has a wrong number at byte .* a gradient is missing"),
        (Hasty(), "a range was written before its reader had read it"),
        (Contrary(), "added in another order; .* the order of the neighbourhood"),
        (Famous(), "worker:0 weighs 2 in all means together, not 1"),
        (Lonely(), "2 of 3 workers never hear of the first one"),
        (Updating(), "owners and plans disagree about whether worker:0 updates byte"),
        (Lopsided(), "does something else than worker:0 would do in its place"),
        (Boastful(), "traffic says 68 of REDUCE from worker:0 to worker:1.* 64 bytes"),
        (Modest(), "n_messages is 1, and the plans send 24"),
        (Cheap(), r"loads says moved=\d+ of all tasks; the plans have"),
        (Doubled(), r"rows are \(\(0, 1, 2\), \(0, 1, 2\)\); give each member"),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Topology) else "",
)
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
