"""How the questions of a process and the answers to them are carried in a world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.errors import DeadlineExceededError, KitError, LinkLost, UnavailableError
from kit.server.elastic.other_processes import OtherProcesses
from kit.server.elastic.succession import STANDBY
from kit.settings import Settings
from kit.training.features.elastic.asking import Ask, Pause

if TYPE_CHECKING:
    from tests.elastic.world import Machine

ORIGIN = "0" * 32
SETTINGS = Settings(
    heartbeat_s=0.05, suspect_after_s=0.5, dead_after_s=2, start_deadline_s=6
)
MOMENT_S = 0.2


class Caller:
    """A link on which a question is answered at once, for copies."""

    is_closed = False

    def __init__(self, asker: Machine, process: str) -> None:
        self.asker, self.process = asker, process

    def call(self, op: str, _: float, values: Any, blob: Any = b"") -> Any:
        world = self.asker.world
        if op == "elastic.fetch":
            world.meanwhile(self.asker)
        target = world.machines[self.process]
        if target.is_lost and not world.is_cut(self.asker, target):
            raise UnavailableError("refused")
        if not world.sees(self.asker, target):
            raise DeadlineExceededError("silent")
        target.hears(hash((op, self.asker.history)))
        result = target.answer(op, values, blob)
        self.asker.hears(target.history)
        return result

    def close(self) -> None:
        """Let go of nothing."""


class ModelProcesses(OtherProcesses):
    """Talks that the world takes through."""

    def run(self, name: str, coroutine: Any) -> None:
        """Begin a coroutine, unless it is one that looks for ever."""
        if name == STANDBY:
            return
        machine: Any = self._neighbours
        machine.run(name, coroutine)


class Running:
    """One coroutine of a process, and what it was told so far."""

    def __init__(self, machine: Machine, coroutine: Any, name: str) -> None:
        self.machine, self.coroutine, self.name = machine, coroutine, name
        self.replies: dict[str, Any] = {}
        self.waiting: set[str] = set()
        self.wanted: Any = None
        self.late: Any = None  # what ends the waiting
        self.turn = 0

    def go_on(self, replies: dict[str, Any]) -> None:
        world, machine = self.machine.world, self.machine
        self.turn += 1
        try:
            self.wanted = wanted = self.coroutine.send(
                replies if self.turn > 1 else None
            )
        except StopIteration:
            return
        except KitError as error:
            world.invariants.violated(f"{self.name} ends with {error!r}")
            return
        if isinstance(wanted, Pause):
            world.post(
                f"{self.name} looks",
                *(machine, lambda: self.go_on({})),
                at=wanted.limit_s,
                is_ready=wanted.until,
            )
            return
        self.replies, self.waiting = {}, set(wanted.processes)
        world.invariants.asks(machine, wanted)
        for process in sorted(self.waiting):
            self.ask(process, wanted)
        self.wait(wanted.limit_s or SETTINGS.step_deadline_s)

    def ask(self, process: str, wanted: Ask) -> None:
        world, machine = self.machine.world, self.machine
        target, turn, short = world.machines[process], self.turn, wanted.op[8:]

        def reply(result: Any, at: float = 0.0) -> None:
            peer = None if isinstance(result, KitError) else target
            label = f"{machine.name} is told by {process}: {short}"
            options = (machine, lambda: self.hear(process, result, turn), peer)
            world.post(label, *options, at=at)

        def deliver() -> None:
            values = {"origin": ORIGIN, **wanted.values}
            try:
                result = target.answer(wanted.op, values)[0]
            except KitError as error:
                reply(error)
            else:
                reply(result)

        if target.is_lost and not world.is_cut(machine, target):
            reply(UnavailableError("refused"))
        elif not world.sees(machine, target):
            reply(DeadlineExceededError("silent"), SETTINGS.suspect_after_s)
        else:
            label = f"{process} is asked by {machine.name}: {short}"
            world.post(label, target, deliver, machine, dropped=reply)

    def wait(self, limit_s: float) -> None:
        world, due = self.machine.world, self.machine.world.clock + limit_s

        def give_up() -> None:
            is_late = world.clock >= due
            text = "it did not answer"
            result = DeadlineExceededError(text) if is_late else LinkLost(text)
            others = self.waiting - {self.machine.name}
            self.replies |= dict.fromkeys(others, result)
            self.waiting -= others
            if not self.waiting:
                self.go_on(self.replies)

        self.late = None
        if self.waiting - {self.machine.name}:
            label = f"{self.name} waits no more"
            self.late = world.post(label, self.machine, give_up, at=limit_s)
            self.late.is_link = True

    def hear(self, process: str, reply: Any, turn: int) -> None:
        if turn != self.turn or process not in self.waiting:
            return
        self.replies[process] = reply
        self.waiting.discard(process)
        if self.late in self.machine.world.events:
            self.machine.world.events.remove(self.late)
        if not self.waiting:
            self.go_on(self.replies)
        else:
            enough = self.wanted.is_enough(self.replies)
            limit_s = self.wanted.limit_s or SETTINGS.step_deadline_s
            self.wait(MOMENT_S if enough else limit_s)
