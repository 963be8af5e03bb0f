"""Processes of an elastic training with neither threads, links nor clock: one world.

What they decide is the code of `kit.server.elastic` itself. Here is what carries it:
the questions and answers on their way, the members that begin, do steps and end, the
time, and what may go wrong. Whoever plays chooses what happens next. Each thing is
atomic, but a process that fetches a copy to begin with may hear others meanwhile.

Messages of a cut or stopped process wait for it. The notebook tells those that stand by
when the processes that host members are all gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kit.errors import ClusterBusy, KitError, LinkLost
from kit.exchange.layout import Spec
from kit.server.elastic.begun_here import Begun
from kit.server.elastic.handlers import ElasticHandlers
from kit.server.elastic.training import ElasticTraining
from kit.task import Task
from kit.training.core.job import Job, Work
from kit.training.core.snapshot import Beginning
from kit.training.features.elastic.generation import Generation
from kit.training.features.elastic.placing import Placing
from kit.training.optimizers.rules import GradientDescent
from tests.elastic.coroutines import ORIGIN, SETTINGS, Caller, ModelProcesses, Running
from tests.elastic.invariants import Invariants
from tests.elastic.runs import N_STEPS, Member, Run, found_in, start

RESTARTED_S = 0.1


@dataclass(eq=False)
class Event:
    """Something on its way: what it does, where, and when at the earliest."""

    label: str
    do: Callable[[], object]
    where: Machine | None = None  # None: in the world itself
    peer: Machine | None = None  # who must be in reach
    at: float = 0.0
    is_ready: Callable[[], bool] = lambda: False  # before that time, too
    dropped: Callable[[KitError], object] = lambda _: None
    key: int = 0
    is_link: bool = False  # which may end earlier, and takes no time then


class Machine:
    """A process of one task: the trainings of it, and the way to the others."""

    def __init__(self, world: World, name: str, start: int) -> None:
        self.world, self.name, self.task = world, name, Task.parse(name)
        self.is_lost = self.is_stopped = False
        self.back_at = -SETTINGS.dead_after_s  # when it was silent last
        self.history = hash((name, start))
        self.member: Member | None = None
        self.earlier: list[Member] = []
        self.address = f"at {name}"
        self.training: Any = None
        self.table = ElasticHandlers(lambda _: self.find()).table()

    def find(self) -> Any:
        return self.training

    @property
    def succession(self) -> Any:
        """What decides here which generation follows."""
        return self.training._succession

    def hears(self, key: int) -> None:
        self.history = hash((self.history, key, self.world.clock))

    def answer(self, op: str, values: Any, blob: Any = b"") -> Any:
        return self.table[op].finish(values, blob)

    def run(self, name: str, coroutine: Any) -> None:
        """Begin to ask others."""
        Running(self, coroutine, name).go_on({})

    def tell_end(self, member: Member) -> None:
        self.training.ended(member)

    def begin(self, job: Job, work: Work) -> None:
        options: Any = (job, work, self, self, ModelProcesses, lambda: self.world.clock)
        self.training = ElasticTraining(*options)

    # -- as the way to others -------------------------------------------------------

    def dial_process(self, task: Task, _: float, role: Any = None) -> Any:
        return Caller(self, task.short)

    def stand_in(self, task: Task, _: str) -> Any:
        return StandIn(self, task)

    def begun_here(self, _: str) -> Any:
        hosts = self.world.begun_on
        return hosts.setdefault("" if self.world.is_one_host else self.name, Notes())

    # -- as the trainings of its own task -------------------------------------------

    def begin_generation(
        self, job: Job, work: Any, beginning: Beginning | None, elastic: Any
    ) -> None:
        start(self, self, job, beginning)

    def maybe_find(self, run: str) -> Member | None:
        return found_in(self, run)


class Notes:
    """Which generations have begun on a host."""

    def __init__(self) -> None:
        self._newest = Begun()

    def append(self, number: int, processes: Sequence[str], by: str) -> None:
        names = tuple(sorted({*self._newest.by, by}))
        newest = max(self._newest, Begun(number, tuple(processes)))
        self._newest = newest._replace(by=names)

    def newest(self) -> Begun:
        return self._newest


class StandIn:
    """A server of a process for another task."""

    def __init__(self, host: Machine, task: Task) -> None:
        self.host, self.task, self.address = host, task, f"{task.short} at {host.name}"
        self.member: Member | None = None
        self.earlier: list[Member] = []
        self.trainings = self

    def stop(self) -> None:
        if self.member is not None:
            self.member.abort(ClusterBusy("stopped"))

    def begin_generation(
        self, job: Job, work: Any, beginning: Beginning | None, elastic: Any
    ) -> None:
        start(self.host, self, job, beginning)

    def maybe_find(self, run: str) -> Member | None:
        return found_in(self, run)


class World:
    """All processes of one training, and all that is on its way between them."""

    def __init__(
        self,
        processes: int,
        standby: int = 0,
        *,
        rehosts: bool = True,
        is_one_host: bool = False,
    ) -> None:
        self.is_one_host, self.begun_on = is_one_host, dict[str, Notes]()
        tasks = tuple(Task("worker", n) for n in range(processes))
        names = [task.short for task in tasks]
        self.clock = 0.0
        self.events: list[Event] = []
        self.cuts: set[frozenset[str]] = set()
        self.runs: dict[str, Run] = {}
        self.past: list[str] = []
        self.asked_to_leave: set[str] = set()
        self.leaving: set[str] = set()  # processes of which that was asked, in time
        self.n_starts = 0
        self.nested: Callable[[Machine], None] = lambda _: None
        self.invariants = Invariants(self)
        placing = Placing(workers=processes - standby if standby else 0)
        self.job = Job(
            *(ORIGIN, tasks, (Spec("w", (1,), "float32"),), GradientDescent(0.1)),
            *("ring", 100, processes),
            generation=Generation.first(ORIGIN, tasks, names, placing, rehosts=rehosts),
            settings=SETTINGS,
        )
        self.machines = {name: Machine(self, name, 0) for name in names}
        for value in self.machines.values():
            value.begin(self.job, self.work())
            value.training.prepare()
        for value in self.machines.values():
            value.training.begin_first(self.job, self.work())

    @staticmethod
    def work() -> Work:
        return Work(lambda *_: None, None, {"w": np.zeros(1)})

    def sees(self, near: Machine, far: Machine) -> bool:
        """Whether what one sends reaches the other now."""
        silent = near.is_lost or far.is_lost or far.is_stopped or near.is_stopped
        return near is far or not (silent or self.is_cut(near, far))

    def is_cut(self, near: Machine, far: Machine) -> bool:
        """Whether nothing gets from one to the other, also not that it has ended."""
        return frozenset((near.name, far.name)) in self.cuts

    def post(
        self,
        label: str,
        where: Machine | None,
        do: Callable[[], object],
        peer: Machine | None = None,
        *,
        at: float = 0.0,
        is_ready: Callable[[], bool] = lambda: False,
        dropped: Callable[[KitError], object] = lambda _: None,
    ) -> Event:
        """Put something on its way; `at`: so many seconds from now."""
        due = self.clock + at if at else 0.0
        event = Event(label, do, where, peer, due, is_ready, dropped)
        source = peer or where
        event.key = hash((label, source.history if source else 0))
        self.events.append(event)
        return event

    def meanwhile(self, machine: Machine) -> None:
        """Let other things happen while a process waits in the middle of something."""
        self.nested(machine)
        if machine.is_lost:
            raise LinkLost("it is lost itself")

    def state(self) -> int:
        """Return a number for all that decides what happens from here on."""
        machines = [
            (machine.history, machine.is_lost, machine.is_stopped)
            for machine in self.machines.values()
        ]
        events = [(event.key, event.at) for event in self.events]
        cuts = frozenset(self.cuts)
        return hash((tuple(machines), tuple(events), cuts, self.clock))

    # -- what may happen --------------------------------------------------------------

    def can_happen(self, event: Event) -> bool:
        where, peer = event.where, event.peer
        if where is None:
            return True
        if where.is_stopped or where.is_lost:
            return False
        return peer is None or peer.is_lost or self.sees(where, peer)

    def ready(self) -> list[Event]:
        """Return what can happen at once."""
        return [
            event
            for event in self.events
            if self.can_happen(event) and (event.at <= self.clock or event.is_ready())
        ]

    def later(self) -> Event | None:
        """Return what happens next when there is nothing to happen at once."""
        result = [event for event in self.events if self.can_happen(event)]
        result = [
            item for item in result if item.at > self.clock and not item.is_ready()
        ]
        return min(result, key=lambda item: item.at, default=None)

    def happen(self, event: Event, *, early: bool = False) -> None:
        """Let an event happen; `early`: no time passes until then."""
        self.events.remove(event)
        if not event.is_ready() and not early:
            self.clock = max(self.clock, event.at)
        self.past.append(event.label)
        if event.where is not None:
            event.where.hears(event.key)
        event.do()
        self.invariants.check()

    def living(self) -> Iterator[Machine]:
        return (machine for machine in self.machines.values() if not machine.is_lost)

    def leave(self, name: str) -> None:
        """Ask that the newest generation goes on without a process."""
        numbers = {run: run.job.generation for run in self.runs.values()}
        run = max(numbers, key=lambda run: getattr(numbers[run], "number", 0))
        run.leave(name)

    # -- what may go wrong --------------------------------------------------

    def lose(self, name: str) -> None:
        """Lose a process; none takes its place."""
        machine = self.machines[name]
        machine.is_lost = True
        mine = [event for event in self.events if event.where is machine]
        self.events = [event for event in self.events if event.where is not machine]
        for item in mine:
            item.dropped(LinkLost("it ended"))
        self._break(machine)
        self.post("the notebook looks", None, self._watch, at=SETTINGS.dead_after_s)

    def _watch(self) -> None:
        """Tell those that stand by that those that host members are gone."""
        jobs = [host.training.now.job for host in self.living()]
        job = max(jobs, key=lambda item: item.generation.number, default=self.job)
        generation: Any = job.generation
        if all(self.machines[name].is_lost for name in generation.places):
            for name in generation.standby:
                if not self.machines[name].is_lost:
                    self.machines[name].training.lose(generation.number, "nobody")

    def restart(self, name: str) -> None:
        """Start the process of a lost task again; it asks to take part."""
        self.n_starts += 1
        expected = [host.training.now.job for host in self.living()]
        job = max(expected, key=lambda item: item.generation.number, default=self.job)
        self.machines[name] = machine = Machine(self, name, self.n_starts)
        machine.begin(job, self.work())
        machine.training.join(job)

    def restart_later(self, name: str) -> None:
        """Lose a process, whose task is soon started again."""
        self.lose(name)
        do = lambda: self.restart(name)  # noqa: E731
        self.post(f"restart {name}", None, do, at=RESTARTED_S)

    def stop(self, name: str) -> None:
        """Stop a process; it wakes up later."""
        machine = self.machines[name]
        machine.is_stopped = True

        def wake() -> None:
            machine.is_stopped = False
            self._see_again(name)

        self._break(machine, SETTINGS.dead_after_s)
        self.post(f"wake {name}", None, wake, at=2 * SETTINGS.dead_after_s)

    def cut(self, *pairs: frozenset[str]) -> None:
        """Cut ways between processes; they are healed later."""
        self.cuts |= {*pairs}
        for name in sorted({name for pair in pairs for name in pair}):
            self._break(self.machines[name], SETTINGS.dead_after_s)

        def heal() -> None:
            self.cuts.difference_update(pairs)
            self._see_again(*(name for pair in pairs for name in pair))

        self.post("heal", None, heal, at=2 * SETTINGS.dead_after_s)

    def isolate(self, name: str) -> None:
        """Cut a process from all others."""
        others = [machine for machine in self.machines if machine != name]
        self.cut(*(frozenset((name, other)) for other in others))

    def _see_again(self, *names: str) -> None:
        for name in names:
            self.machines[name].back_at = self.clock
        for run in self.runs.values():
            if run.n_steps < N_STEPS or run.reason:
                run.call_step()

    def _break(self, machine: Machine, silent_s: float = 0.0) -> None:
        """Let the members of a process's runs notice that it is out of reach."""
        for run in self.runs.values():
            if machine.name in run.places:
                run.tell_others(machine, silent_s)
