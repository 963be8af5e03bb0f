"""What must hold in every history of an elastic training, however it is interleaved."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kit.training.core.snapshot import CopyPoint
from kit.training.features.elastic.asking import Ask
from kit.training.features.elastic.generation import newest_whole
from tests.elastic.coroutines import SETTINGS

if TYPE_CHECKING:
    from tests.elastic.runs import Run
    from tests.elastic.world import Machine, World


class Violation(Exception):
    """Something does not hold that must."""


class Invariants:
    """Looks at a world after each thing that happens; raises `Violation`."""

    def __init__(self, world: World) -> None:
        """Begin with nothing claimed and nothing committed."""
        self.world = world
        self.committed: set[str] = set()  # runs that have committed a step
        self._before: dict[str, str] = {}  # the run that each was to follow
        self.whole: set[CopyPoint] = set()  # of which all copies were kept
        self._known: dict[int, set[CopyPoint]] = {}  # when that number was claimed
        self._newest: dict[Machine, tuple[int, int]] = {}
        self._said: set[Machine] = set()
        self._ends: set[str] = set()
        self._stays: set[str] = set()

    def violated(self, text: str) -> None:
        raise Violation(text)

    def commits(self, run: Run) -> None:
        """A run commits a step."""
        generation = run.job.generation
        self.committed.add(run.job.run)
        # Of one whose processes have all ended nothing is left: it is done again.
        for machine in self.world.living():
            now = machine.training.now
            if now.takes_part and not now.is_over and now.job.run in self.committed:
                mine, theirs = {*self._line(run.job.run)}, {*self._line(now.job.run)}
                if not (mine <= theirs or theirs <= mine):
                    self.violated(f"two runs commit steps, one at {machine.name}")
        for member in run.members.values():
            newest, name = member.host.training.now.claimed, member.host.name
            if newest > generation.number and name in generation.places:
                self.violated(
                    f"{name} commits a step of generation {generation.number}, and "
                    f"{newest} has claimed its log"
                )

    def _line(self, run: str) -> list[str]:
        """Return a run and all that it follows."""
        line = [run]
        while line[-1] in self._before:
            line.append(self._before[line[-1]])
        return line

    def confirmed(self, run: Run, moment: CopyPoint) -> None:
        """All copies of a moment are kept, each in two processes if there are two."""
        self.whole.add(moment)

    def asks(self, machine: Machine, wanted: Ask) -> None:
        """A process asks others something."""
        values = wanted.values
        if wanted.op == "elastic.claim":
            self._known[values["number"]] = set(self.whole)
        elif wanted.op == "elastic.begin":
            before = machine.training.now.job.run  # at the first of these questions
            self._before.setdefault(values["job"]["job"].run, before)
            self.begins(values)

    def begins(self, values: dict[str, Any]) -> None:
        """A generation is to begin with the newest copies, all of one run."""
        job, machines = values["job"]["job"], self.world.machines
        if {*job.generation.processes} <= self.world.asked_to_leave:
            self._stays |= {*job.generation.processes}  # nobody else is left
        moment = CopyPoint(*values["moment"])
        here = [machines[name] for name in job.generation.processes]
        held = {
            host.name: [made for made in host.training.copies.held()]
            for host in here
            if not host.is_lost and host.training is not None
        }
        expected = self._known[job.generation.number]
        held = {
            name: [copy for copy in some if copy.moment in expected]
            for name, some in held.items()
        }
        result = newest_whole(held)
        if result is not None and result[0] > moment:
            self.violated(f"{result[0]} is passed over, to begin at {moment}")
        runs = set()
        for member, (name, of) in values["holders"].items():
            if not machines[name].is_lost:
                copies, point = machines[name].training.copies, CopyPoint(*of)
                with suppress(KeyError):
                    runs.add(bytes(copies.find(point, int(member)).data))
        of_it = [of for _, of in values["holders"].values() if CopyPoint(*of) == moment]
        if values["holders"] and len(of_it) < len(job.tasks):
            self.violated(f"it begins with a part of the state of {moment}")
        if len(runs) > 1:
            self.violated(f"copies of two runs are put together at {moment}")

    def check(self) -> None:
        """Look at what each process lets happen, knows and says."""
        for machine in self.world.living():
            now = machine.training.now
            newest = now.claimed, now.generation.number
            before = self._newest.setdefault(machine, newest)
            if newest[0] < before[0] or newest[1] < before[1]:
                self.violated(f"{machine.name} goes back from {before} to {newest}")
            self._newest[machine] = newest
            if now.error is not None and machine not in self._said:
                self._said.add(machine)
                # What one says is the end for all others; only that one has looked.
                is_first = str(now.error) not in self._ends
                self._ends.add(str(now.error))
                if is_first and "the only copies" in now.error.message:
                    self._check_gone(machine)

    def _check_gone(self, machine: Machine) -> None:
        # One that is silent for so long counts as gone, and so does one that has left.
        seen = [
            item
            for item in self.world.living()
            if self.world.sees(machine, item)
            and not (item.name in self.world.leaving and item.training.now.is_over)
            and self.world.clock - item.back_at >= SETTINGS.dead_after_s
        ]
        # One that becomes whole after they have told what they hold comes too late.
        expected = self._known.get(machine.training.now.claimed, self.whole)
        held = {
            host.name: [
                made for made in host.training.copies.held() if made.moment in expected
            ]
            for host in seen
        }
        if (result := newest_whole(held)) is not None:
            self.violated(f"{machine.name} says that copies are gone, but {result} is")

    def check_end(self, touched: set[str]) -> None:
        """Look at where all have come to when nothing is left to happen."""
        world = self.world
        errors = {host.name: host.training.now.error for host in world.living()}
        going = [item for item in world.living() if errors[item.name] is None]
        # One that stood by, was silent and comes back has no link to learn of it; that
        # it asks now and then is not played.
        newest = max((host.training.now.generation.number for host in going), default=0)
        going = [
            host
            for host in going
            if host.training.now.generation.number == newest
            or host.name not in host.training.now.generation.standby
        ]
        runs = {host.training.now.job.run for host in going}
        if len(runs) > 1:
            self.violated(f"{[item.name for item in going]} are in {len(runs)} runs")
        if going:
            job = going[0].training.now.job
            run = world.runs.get(job.run)
            outside = [
                item.name for item in going if item.name not in job.generation.processes
            ]
            # One that stands by learns of an error from the notebook alone.
            if {item.name for item in going} <= {*job.generation.standby} and any(
                errors.get(task) for task in job.generation.places
            ):
                return
            # Who was lost and comes back takes part again.
            changes = job.generation.changes
            joined = {name for change in changes for name in change.joined}
            stayed = world.leaving & {*job.generation.processes} - joined - self._stays
            if stayed:
                self.violated(f"{stayed} were asked to leave, and take part")
            if run is None or not run.is_whole or not run.n_steps or outside:
                self.violated(
                    f"{[item.name for item in going]} stand still in generation "
                    f"{job.generation.number}"
                )
        untouched = set(world.machines) - touched
        may_go_on = 2 * len(untouched) > len(world.machines)
        said = [str(error) for error in errors.values() if error is not None]
        is_gone = any("only copies" in text for text in said)
        if may_go_on and not is_gone and any(errors[item] for item in untouched):
            self.violated(f"those that could go on do not: {errors}")
