"""Plays all histories of a small elastic training up to a bound, and checks each.

    python -m tests.elastic.explorer --processes 4 --losses 2 --delays 2
    python -m tests.elastic.explorer --losses 4 --delays 8 --seeds 0 2000

A history is played from its beginning, with what the processes decide by themselves
(`tests.elastic.world`). In the plain history all happens in the order in which it was
sent, and time passes only when nothing else is left. Others deviate from it

- up to `losses` times by a loss: a process is killed, killed and started again,
  stopped, or cut from one other or from all; what is stopped or cut comes back after
  four seconds. With `--kinds leave` a process may also be asked to leave;
- up to `delays` times by another order: anything else on its way happens first, a link
  ends before the answer, or what takes time happens before what is on its way,

at each of the first `depth` points. Then they go on until nothing is left to happen. So
all histories with no more deviations than that are played; one that comes to a state in
which another one has been, with as many deviations left, is not played on.

With `--seeds FIRST END` as many random histories are played instead: with so many
deviations, at points that are drawn.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

from kit.training.core.job import Job
from tests.elastic.world import Event, Machine, World

KINDS = ("kill", "restart", "stop", "isolate", "cut")
WAYS = (*KINDS, "leave")
MOST = 3000  # things that happen in one history
OFTEN = 0.1  # how likely a random history deviates at a point


class Move(NamedTuple):
    """Something that may happen next, and how it deviates from the plain history."""

    label: str
    do: Callable[[], object]
    n_losses: int = 0
    n_delays: int = 0
    touches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bound:
    """Which histories are played; see the module."""

    processes: int = 3
    standby: int = 0
    losses: int = 1
    delays: int = 1
    depth: int = 80
    kinds: tuple[str, ...] = KINDS


Choices = tuple[tuple[int, int], ...]  # at which point, which of the moves


class _Known(Exception):
    """A state in which another history has been."""


@dataclass
class Found:
    """What was played, and the first histories that went wrong."""

    paths: int = 0
    states: int = 0
    is_cut_short: bool = False  # by the limit of time
    wrong: list[tuple[str, list[str], Choices]] = field(default_factory=list)


class Player:
    """Plays one history."""

    def __init__(
        self, bound: Bound, choices: Choices, seen: dict[int, set[Any]]
    ) -> None:
        """Play as in `choices`, then plainly; `seen` are the states that were met."""
        self.bound, self.seen = bound, seen
        self.choices = dict(choices)
        self.last = choices[-1][0] if choices else -1
        self.point = 0
        self.losses = self.delays = 0
        self.taken = choices
        self.others: list[Choices] = []  # histories that deviate once more
        self.moves: list[str] = []
        self.script: list[tuple[str, str]] = []  # after what, what happens; in order
        self.branches = True
        self.dice: random.Random | None = None
        self.touched: set[str] = set()
        is_one_host = {"cut", "isolate"}.isdisjoint(bound.kinds)
        self.world = World(bound.processes, bound.standby, is_one_host=is_one_host)
        self.world.nested = self._within

    def play(self) -> None:
        """Play it to its end; raises `Violation`."""
        world = self.world
        try:
            for _ in range(MOST):
                if not self._choose(self._moves()):
                    world.invariants.check_end(self.touched)
                    return
            world.invariants.violated("it does not come to an end")
        except _Known:
            return

    def _within(self, machine: Machine) -> None:
        stays = Move("it goes on", lambda: None)
        self._choose(itertools.chain([stays], self._reordered(machine, 0)))

    def _choose(self, moves: Iterator[Move]) -> bool:
        """Let one of the moves happen; whether there was one."""
        point = self.point
        self.point += 1
        last = self.moves[-1] if self.moves else ""
        if self.script and self.script[0][0] == last:
            wanted = self.script.pop(0)[1]
            move = next(item for item in moves if item.label == wanted)
        elif point in self.choices:
            move = next(itertools.islice(moves, self.choices[point], None))
        else:
            first = next(moves, None)
            if first is None:
                return False
            move = first if self.dice is None else self._drawn(first, moves, self.dice)
            if point > self.last and self.branches:
                self._branch(point, moves)
        self.losses += move.n_losses
        self.delays += move.n_delays
        self.touched |= {*move.touches}
        self.moves.append(move.label)
        move.do()
        if move.n_losses:
            self.world.invariants.check()
        return True

    def _drawn(self, first: Move, moves: Iterator[Move], dice: random.Random) -> Move:
        """Return the plain move or, now and then, another one within the bound."""
        if dice.random() >= OFTEN:
            return first
        losses = self.bound.losses - self.losses
        delays = self.bound.delays - self.delays
        others = [
            move
            for move in moves
            if move.n_losses <= losses and move.n_delays <= delays
        ]
        return dice.choice(others or [first])

    def _branch(self, point: int, moves: Iterator[Move]) -> None:
        used = self.losses, self.delays
        expected = self.seen.setdefault(self.world.state(), set())
        if any(row[0] <= used[0] and row[1] <= used[1] for row in expected):
            raise _Known
        expected.add(used)
        if point >= self.bound.depth or used == (self.bound.losses, self.bound.delays):
            return
        for number, move in enumerate(moves, 1):
            losses, delays = used[0] + move.n_losses, used[1] + move.n_delays
            if losses <= self.bound.losses and delays <= self.bound.delays:
                self.others.append((*self.taken, (point, number)))

    def _moves(self) -> Iterator[Move]:
        world = self.world
        ready, later = world.ready(), world.later()
        first = ready[0] if ready else later
        if first is None:
            return
        yield self._move(first, 0)
        yield from self._reordered(None, 1)
        # Not at random: a message might wait for longer than its link lasts.
        if ready and later is not None and self.dice is None:
            yield self._move(later, 1, early=False)
        # A link ends; a machine that wakes up, or a way that is healed, early.
        for event in world.events:
            may_be = event.where is None or (event.is_link and world.can_happen(event))
            if may_be and event.at > world.clock and event is not later:
                yield self._move(event, 1)
        for name in [item.name for item in world.living() if not item.is_stopped]:
            yield from self._losses(name)

    def _reordered(self, machine: Machine | None, skip: int) -> Iterator[Move]:
        for event in self.world.ready()[skip:]:
            if machine is None or event.where is machine:
                yield self._move(event, 1)

    def _move(self, event: Event, n_delays: int, *, early: bool = True) -> Move:
        world, early = self.world, early and n_delays > 0
        do = lambda: world.happen(event, early=early)  # noqa: E731
        return Move(event.label, do, 0, n_delays)

    def _losses(self, name: str) -> Iterator[Move]:
        world, kinds = self.world, self.bound.kinds
        ways = {
            "kill": world.lose,
            "restart": world.restart_later,
            "stop": world.stop,
            "isolate": world.isolate,
            "leave": world.leave,
        }
        for kind, way in ways.items():
            if kind in kinds:
                yield Move(f"{kind} {name}", partial(way, name), 1, 0, (name,))
        if "cut" in kinds:
            for other in world.machines:
                if other > name:
                    pair = frozenset((name, other))
                    cut = lambda pair=pair: world.cut(pair)  # noqa: E731
                    yield Move(f"cut {name} {other}", cut, 1, 0, (name, other))


def untold() -> AbstractContextManager[Any]:
    """Let jobs go from one process to another as they are: writing them takes long."""
    return mock.patch.multiple(
        Job,
        to_plain=lambda job: {"job": job},
        from_plain=staticmethod(lambda reply, expected=None: reply["job"]),
    )


def explore(bound: Bound, limit_s: float = float("inf"), most_wrong: int = 1) -> Found:
    """Play all histories within a bound, those with few deviations first."""
    result, seen, began = Found(), dict[int, set[Any]](), time.process_time()
    waiting: list[Choices] = [()]
    with untold():
        while waiting and len(result.wrong) < most_wrong:
            deeper: list[Choices] = []
            for choices in waiting:
                if time.process_time() - began > limit_s:
                    result.states, result.is_cut_short = len(seen), True
                    return result
                player = Player(bound, choices, seen)
                result.paths += 1
                try:
                    player.play()
                except Exception as error:  # what a coroutine fails with, too
                    text = f"{type(error).__name__}: {error}"
                    result.wrong.append((text, player.moves, choices))
                    if len(result.wrong) == most_wrong:
                        break
                deeper += player.others
            waiting = deeper
    result.states = len(seen)
    return result


def wander(bound: Bound, seeds: Iterable[int], most_wrong: int = 1) -> Found:
    """Play the random histories with these seeds."""
    result = Found()
    with untold():
        for seed in seeds:
            player = Player(bound, (), {})
            player.branches, player.dice = False, random.Random(seed)
            result.paths += 1
            try:
                player.play()
            except Exception as error:
                text = f"seed {seed}: {type(error).__name__}: {error}"
                result.wrong.append((text, player.moves, ()))
                if len(result.wrong) == most_wrong:
                    break
    return result


def play(bound: Bound, *script: tuple[str, str]) -> Player:
    """Play the history in which, after one thing, another happens; "" is the begin.

    Each of the pairs counts once, and after those before it. Raises `Violation`.
    """
    player = Player(bound, (), {})
    player.script, player.branches = [*script], False
    with untold():
        player.play()
    return player


def main() -> int:
    """Play the histories within the bound that is given, and say how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in "processes", "standby", "losses", "delays", "depth":
        parser.add_argument(f"--{name}", type=int, default=getattr(Bound, name))
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=WAYS)
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--wrong", type=int, default=1)
    parser.add_argument("--seeds", nargs=2, type=int, metavar=("FIRST", "END"))
    options = vars(parser.parse_args())
    limit, most, seeds = (options.pop(name) for name in ("limit", "wrong", "seeds"))
    bound, began = (
        Bound(**{**options, "kinds": tuple(options["kinds"])}),
        time.monotonic(),
    )
    result = (
        wander(bound, range(*seeds), most) if seeds else explore(bound, limit, most)
    )
    spent = time.monotonic() - began
    rest = ", and there are more" if result.is_cut_short else ""
    print(f"{result.paths} histories, {result.states} states, {spent:.1f} s{rest}")
    for text, reply, choices in result.wrong:
        deviating = [point for point, _ in choices]
        lines = [
            f"{'*' if n in deviating else ' '} {item}" for n, item in enumerate(reply)
        ]
        print("\n    ".join([f"WRONG: {text}   {choices}", *lines]))
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main())
