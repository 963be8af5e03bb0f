"""How gradients meet: what a topology says about itself, and the table of them all.

Pure. Nothing else knows a topology by name: its class says what a training may do with
it, what its steps cost and how it is drawn. To add one, derive from `Topology`, write
its plan, and `register` it:

    class Tree(Topology):
        name = "tree"
        def plan(self, layout, group, member): ...

Everything else has a default, made from the plan. If a topology states its `traffic` by
a closed formula, that is compared with what was measured: it finds mistakes in the
plan, which counting the plan cannot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches

from kit.errors import InvalidArgumentError, UnknownTopology
from kit.exchange.layout import Layout, Range, Spec, lay_out, merge
from kit.exchange.plan import Apply, Group, Owned, Plan, chain
from kit.exchange.topologies.counting import (
    Loads,
    counted_hops,
    counted_loads,
    counted_messages,
    counted_traffic,
)
from kit.exchange.topologies.counting import Traffic as Traffic
from kit.exchange.topologies.parameter_placement import shards_of

# The ranks whose shares are added from left to right; a tuple among them is a sum that
# is added first, as if it stood in brackets.
Order = tuple["int | Order", ...]

_ASYNCHRONOUS = "-async"  # what a trace appends to the name of such an epoch
AUTO = "auto"  # what `kit.train` is given to choose one; a job has a topology's name


class Topology(ABC):
    """How the gradients of one step meet and how the parameters come back.

    A class gives its `name` and its `plan`, and may override the rest. Methods get the
    `layout` of the parameters in buckets and chunks, and the `group` of members, which
    are numbered from 0.

    Attributes
    ----------
    name : str
        What it is called in `kit.train`, `run.topology` and `%topology`.
    needs_ps : bool, default False
        Whether it needs a parameter server.
    agrees : bool, default True
        Whether all workers have the same parameters after a step. If False, workers
        send their own parameters, the plan adds those of each one's `neighbourhood`
        into NEXT and applies nothing, and the training needs `local_steps`.
    may_be_asynchronous, may_have_backups : bool, default False
        Whether a training may be asynchronous, or go on without some gradients. Such
        steps are not carried out by the plan: workers push to each server what it
        holds, and pull it, as in `ps`. So each server must own what it holds, and
        nobody else may own anything.
    turns : bool, default False
        Whether workers differ by their places alone: what the k-th one does is what the
        first one does, with all workers and chunks moved on by k places on a circle. A
        thousand of them are then rehearsed from one plan. Not inherited: a class that
        is derived from it says so itself.
    hue : int, optional
        The number of its colour in the palette of the figures; by default the next one
        that is free.

    Examples
    --------
    >>> from kit.exchange.topologies.ring import Ring
    >>> class Circle(Ring):
    ...     name, title = "circle", "A ring by another name"
    >>> Circle().title
    'A ring by another name'
    """

    name: str
    needs_ps: bool = False
    agrees: bool = True
    may_be_asynchronous: bool = False
    may_have_backups: bool = False
    turns: bool = False
    hue: int | None = None

    @property
    def title(self) -> str:
        """What it is called in headings."""
        return f"Topology {self.name}"

    @abstractmethod
    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return what a member does in a step.

        It must depend on the arguments alone: members do not send each other plans, so
        all must come to the same ones.

        Parameters
        ----------
        layout : Layout
            Where the parameters lie, in buckets and chunks.
        group : Group
            The members that take part, and what each server holds.
        member : int
            The number of one of them.

        Returns
        -------
        Plan or None
            Its operations in order; None if it does nothing at all.
        """

    def plans(self, layout: Layout, group: Group) -> dict[int, Plan]:
        """Return the plans of all members that do something, by member number."""
        made = {member: self.plan(layout, group, member) for member in group.members}
        return {member: plan for member, plan in made.items() if plan is not None}

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Return who updates which parameters; together they cover all of them.

        Default: those whose plans apply an update.
        """
        members: dict[Range, list[int]] = {}
        for member, plan in self.plans(layout, group).items():
            for op in plan.ops:
                if isinstance(op, Apply):
                    members.setdefault(op.range, []).append(member)
        return tuple(Owned(part, tuple(members[part])) for part in sorted(members))

    def neighbourhood(self, group: Group, worker: int) -> tuple[int, ...]:
        """Return the workers whose numbers are added up at one worker, itself included.

        If not all agree, they are added in this order. The weights of a worker in all
        means that it is in must add up to 1, so that the mean of all workers stays the
        same. Default: all workers.

        Parameters
        ----------
        group : Group
            The members that take part.
        worker : int
            The member number of a worker.
        """
        return group.workers

    def order(self, n: int, chunk: int) -> Order:
        """Return in which order the shares of `n` workers are added, by rank.

        Nested tuples are brackets: ``((0, 1), (2, 3))`` is (0 + 1) + (2 + 3). Default:
        that of most topologies, round the circle from the chunk's own worker on. All
        that keep it give the same bits; one with an order of its own, such as a tree,
        has other last bits than these.

        Parameters
        ----------
        n : int
            The number of workers.
        chunk : int
            The number of a chunk in its bucket.
        """
        return chain(chunk, n)

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Return the bytes of a step, by (source, destination, kind of transfer).

        State them by a closed formula: a test then compares it with what is measured.
        Default: counted in the plans.
        """
        return counted_traffic(self.plans(layout, group))

    def n_messages(self, layout: Layout, group: Group) -> int:
        """Return how many messages of a step carry something; default: counted."""
        return counted_messages(self.plans(layout, group))

    def hops(self, layout: Layout, group: Group) -> int:
        """Return how many messages between hosts follow one another in a step.

        Each waits for the one before it: with a latency of L, a step that all begin
        together takes at least this many times L. Buckets count one after the other.
        Default: counted.
        """
        return counted_hops(self.plans(layout, group), group)

    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        """Return what a step costs on its longest path, and in all tasks together.

        `kit.exchange.topologies.time_model` predicts times from it. Default: counted in
        the plans of float32 parameters of this size.

        Parameters
        ----------
        n, n_ps : int
            Numbers of workers and of parameter servers.
        n_bytes : int
            Size of the parameters.
        n_buckets : int
            Into how many buckets they are cut.
        """
        specs = [Spec("w", (-(-n_bytes // 4),), "float32")]
        layout = lay_out(specs, n, -(-n_bytes // n_buckets))
        n_ps = n_ps if self.needs_ps else 0
        workers = tuple(range(n_ps, n_ps + n))
        group = Group(tuple(range(n_ps)), workers, shards_of(layout, n_ps))
        return counted_loads(self.plans(layout, group), group)

    def cost_in_words(self, n: int) -> str:
        """Return what a step of `n` workers costs, in sentences; default: nothing."""
        return ""

    def rows(self, group: Group) -> tuple[tuple[int, ...], ...]:
        """Return the members in each row of its picture, from top to bottom.

        Without rows the workers are drawn in a circle. A member that is in neither
        takes no part, and is drawn aside. The arrows of the picture are the links of
        `traffic`. Default: servers above workers if it needs servers, else a circle.
        """
        return (group.ps, group.workers) if self.needs_ps else ()


TABLE: dict[str, Topology] = {}


def register(topology: Topology) -> Topology:
    """Add a topology to the table, so that trainings can name it; returns it.

    It replaces one of the same name. The table is that of this process; a training
    takes your topology to the tasks.

    Parameters
    ----------
    topology : Topology
        An instance, with a `name` that is not "auto" and does not end in "-async".

    Raises
    ------
    InvalidArgumentError
        It is not a topology, or its name cannot be one.
    """
    if not isinstance(topology, Topology):
        raise InvalidArgumentError(
            f"{topology!r} is not a topology; derive its class from "
            f"kit.exchange.Topology and register an instance of it."
        )
    name = getattr(topology, "name", None)
    is_text = isinstance(name, str) and name not in ("", AUTO)
    if name is None or not is_text or name.endswith(_ASYNCHRONOUS):
        raise InvalidArgumentError(
            f"a topology of class {type(topology).__name__} has the name {name!r}; "
            f"give it a text that does not end in {_ASYNCHRONOUS!r}, which is what "
            f"traces call its asynchronous steps, and is not {AUTO!r}."
        )
    TABLE[name] = topology
    return topology


def is_own(topology: Topology) -> bool:
    """Whether its class is a user's, and not one of this package.

    >>> from kit.exchange.topologies.ring import Ring
    >>> Mine = type("Mine", (Ring,), {"__module__": "__main__"})
    >>> is_own(Ring()), is_own(Mine())
    (False, True)
    """
    return type(topology).__module__.split(".")[0] != __name__.split(".")[0]


def names() -> tuple[str, ...]:
    """Return the names of all topologies, sorted."""
    return tuple(sorted(TABLE))


def registered() -> tuple[Topology, ...]:
    """Return all topologies in the order in which they were registered."""
    return tuple(TABLE.values())


def first(suits: Callable[[Topology], bool]) -> str:
    """Return the name of the first topology that suits, to recommend it; "" if none."""
    return next((topology.name for topology in registered() if suits(topology)), "")


def by_name(name: str) -> Topology:
    """Return a topology by name; raises `InvalidArgumentError` with the known ones."""
    try:
        return TABLE[name]
    except (KeyError, TypeError):
        if name == AUTO:
            raise InvalidArgumentError(
                f"a topology is chosen when a training begins, by "
                f"kit.train(topology={AUTO!r}); later, ask kit.recommend(...) and name "
                f"one of {', '.join(names())}."
            ) from None
        near = get_close_matches(str(name), TABLE, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownTopology(
            f"no topology is called {name!r}; there are {', '.join(names())}.{hint}"
        ) from None


def agreeing(name: str) -> str:
    """Return the name of a topology after whose steps all agree: this one if it can be.

    >>> import kit.exchange
    >>> agreeing("mesh"), agreeing("gossip")
    ('mesh', 'ring')
    """
    topology = maybe_by_name(name)
    if topology is None or topology.agrees:
        return name
    return first(lambda item: item.agrees and not item.needs_ps) or name


def has_own_order(topology: Topology) -> bool:
    """Whether its sums differ in the last bits from those of most topologies.

    Sums of two numbers have no order, so with two workers all give the same bits.

    >>> import kit
    >>> has_own_order(by_name("ring")), has_own_order(by_name("tree"))
    (False, True)
    """
    return topology.order(4, 0) != chain(0, 4)


def steps_to_all(topology: Topology, group: Group) -> int:
    """Return after how many steps what the first worker knew has reached all workers.

    One, if every worker's result depends on all of them. Raises `InvalidArgumentError`
    if it never reaches some.

    >>> from kit.exchange.topologies.gossip import Gossip
    >>> [steps_to_all(Gossip(), Group((), tuple(range(n)), ())) for n in (1, 2, 3, 6)]
    [1, 1, 1, 3]
    """
    if topology.agrees:
        return 1
    hears: dict[int, list[int]] = {worker: [] for worker in group.workers}
    for worker in group.workers:
        for other in topology.neighbourhood(group, worker):
            hears[other].append(worker)
    informed, news, steps = set(group.workers[:1]), list(group.workers[:1]), 0
    while news := [item for who in news for item in hears[who] if item not in informed]:
        informed.update(news)
        steps += 1
    if len(informed) < len(group.workers):
        raise InvalidArgumentError(
            f"in topology {topology.name!r} {len(group.workers) - len(informed)} of "
            f"{len(group.workers)} workers never hear of the first one; join all of "
            f"them by their neighbourhoods."
        )
    return max(1, steps)


def maybe_by_name(name: str) -> Topology | None:
    """Return the topology that has this name in a trace; None if it is not known here.

    >>> maybe_by_name("tree-async") is maybe_by_name("tree")
    True
    """
    return TABLE.get(name.removesuffix(_ASYNCHRONOUS))


def is_served(topology: Topology, layout: Layout, group: Group) -> bool:
    """Whether each server updates what it holds, and nobody else anything.

    >>> from kit.exchange.topologies import ps, ring
    >>> layout = lay_out([Spec("w", (8,), "float32")], n_workers=2)
    >>> group = Group((0,), (1, 2), shards_of(layout, 1))
    >>> [is_served(kind, layout, group) for kind in (ps.ParameterServer(), ring.Ring())]
    [True, False]
    """
    owned: dict[int, list[Range]] = {}
    for owner in topology.owners(layout, group):
        for member in owner.members:
            owned.setdefault(member, []).append(owner.range)
    held = dict(zip(group.ps, group.shards, strict=True))
    return bool(held) and _merged(owned) == _merged(held)


def _merged(parts: Mapping[int, Iterable[Range]]) -> dict[int, tuple[Range, ...]]:
    whole = {m: merge(part for part in own if part.size) for m, own in parts.items()}
    return {member: own for member, own in whole.items() if own}


def per_member(traffic: Traffic, member: int) -> tuple[int, int]:
    """Return the bytes that a member sends and receives in a step.

    >>> from kit.trace.traffic import TransferKind
    >>> per_member({(0, 1, TransferKind.PUSH): 8, (1, 0, TransferKind.PULL): 4}, 0)
    (8, 4)
    """
    sent = sum(size for (source, _, _), size in traffic.items() if source == member)
    got = sum(size for (_, target, _), size in traffic.items() if target == member)
    return sent, got


def per_link(traffic: Traffic) -> dict[tuple[int, int], int]:
    """Return the bytes of a step on each link that carries any.

    >>> from kit.trace.traffic import TransferKind
    >>> per_link({(0, 1, TransferKind.REDUCE): 8, (0, 1, TransferKind.GATHER): 4})
    {(0, 1): 12}
    """
    result: dict[tuple[int, int], int] = {}
    for (source, target, _), size in traffic.items():
        if size:
            result[source, target] = result.get((source, target), 0) + size
    return result
