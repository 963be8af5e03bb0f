"""Of steps whose times are laid down, the verdict names the cause and its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.trace.bottleneck import Bottleneck, Cause, bottleneck
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import MEASURE, SPAN, STEP, TRANSFER, Phase, TransferKind
from tests.cases import for_each

MS = 1_000_000
BIG, SMALL = 1_000_000, 1_000
_OWN = (Phase.LOAD, Phase.COMPUTE, Phase.QUEUE)


@dataclass(frozen=True)
class Scene:
    """A parameter server and workers whose times (ms) are the same in each step.

    Each worker loads, computes, queues and pushes; the server waits for all in their
    order, updates and hands out. `link` is how long a payload of a worker is on its
    way, there and back.
    """

    compute: Sequence[int] = (20, 20, 20)
    load: Sequence[int] = (0, 0, 0)
    queue: Sequence[int] = (0, 0, 0)
    link: Sequence[int] = (0, 0, 0)
    slow: Mapping[int, int] = field(default_factory=dict)  # step: worker, 100 ms longer
    apply: int = 1
    n_bytes: int = BIG
    n_steps: int = 12
    settings: str = ""
    pause_before: int = -1  # a step
    epochs: tuple[EpochRow, ...] = ()
    rows: dict[str, list[Any]] = field(
        default_factory=lambda: {"spans": [], "transfers": [], "steps": []}
    )

    def trace(self) -> Trace:
        """Return what the tasks would have recorded."""
        n = len(self.compute)
        names = ("ps:0", *(f"worker:{w}" for w in range(n)))
        at, served = [0] * n, 0
        for step in range(self.n_steps):
            if step == self.pause_before:
                served = max(*at, served) + 5_000
                at = [served] * n
            begun, pushed = list(at), [self._own_part(w, step, at[w]) for w in range(n)]
            arrived = self._serve(step, pushed, served)
            served = arrived + self.apply
            at = [self._pull(step, w, pushed[w], served) for w in range(n)]
            for w in range(n):
                times = (begun[w], at[w], self._compute(w, step), at[w] - pushed[w])
                self.step(w + 1, step, 10, *times)
            self.step(0, step, 0, min(begun), served, 0, 0)
        tables = zip((SPAN, TRANSFER, STEP), self.rows.values(), strict=True)
        spans, transfers, steps = (rows(dtype, value) for dtype, value in tables)
        epochs = self.epochs or (EpochRow(1, "ps", 0, 0, self.settings),)
        return Trace(names, epochs, transfers, spans, steps)

    def _own_part(self, w: int, step: int, at: int) -> int:
        lengths = self.load[w], self._compute(w, step), self.queue[w]
        for phase, ms in zip(_OWN, lengths, strict=True):
            at = self.span(w + 1, phase, step, at, at + ms)
        return at

    def _compute(self, w: int, step: int) -> int:
        return self.compute[w] + (100 if self.slow.get(step) == w else 0)

    def _serve(self, step: int, pushed: Sequence[int], begin: int) -> int:
        """Take all pushes in their order; returns when the last was there."""
        at = begin
        for w, when in enumerate(pushed):
            at = max(at, when + self.link[w])
            self.transfer(w + 1, 0, TransferKind.PUSH, step, when, at)
        self.span(0, Phase.WAIT, step, begin, at)
        return self.span(0, Phase.APPLY, step, at, at + self.apply) - self.apply

    def _pull(self, step: int, w: int, pushed: int, sent: int) -> int:
        at = sent + self.link[w]
        self.transfer(0, w + 1, TransferKind.PULL, step, sent, at)
        return self.span(w + 1, Phase.WAIT, step, pushed, at)

    def span(self, task: int, phase: int, step: int, begin: int, end: int) -> int:
        self.rows["spans"].append((task, phase, step, begin * MS, end * MS))
        return end

    def transfer(self, *about: int) -> None:
        *whom, step, begin, end = about
        row = (*whom, 1, step, self.n_bytes, begin * MS, end * MS)
        self.rows["transfers"].append(row)

    def step(self, task: int, step: int, examples: int, *times: int) -> None:
        begin, end, computed, waited = (time * MS for time in times)
        row = (task, step, 1, 0.5, examples, begin, end, computed, waited, 0)
        self.rows["steps"].append(row)


def ring(hop: int, n_bytes: int) -> Bottleneck:
    """Return the verdict on a ring of three, whose four messages take `hop` ms each."""
    scene, at = Scene(n_bytes=n_bytes), 0
    for step in range(scene.n_steps):
        begun, sent = at, at + 20
        for w in range(3):
            scene.span(w, Phase.COMPUTE, step, begun, sent)
        for at in range(sent, sent + 4 * hop, hop):
            for w in range(3):
                to = (w + 1) % 3
                scene.transfer(w, to, TransferKind.REDUCE, step, at, at + hop)
                scene.span(to, Phase.WAIT, step, at, at + hop)
        at = sent + 4 * hop
        for w in range(3):
            scene.step(w, step, 10, begun, at, 20, 4 * hop)
    tables = zip((SPAN, TRANSFER, STEP), scene.rows.values(), strict=True)
    spans, transfers, steps = (rows(dtype, value) for dtype, value in tables)
    names, epochs = (
        ("worker:0", "worker:1", "worker:2"),
        (EpochRow(1, "ring", 0, 0, ""),),
    )
    return bottleneck(Trace(names, epochs, transfers, spans, steps))


def verdict(**changes: Any) -> Bottleneck:
    return bottleneck(Scene(**changes).trace())


@for_each(
    ("changes", "cause", "task", "cost", "step"),
    [
        # The others compute 20 ms: they wait 9 of the 29 + 2 ms of a step.
        ({"compute": (20, 20, 29), "apply": 2}, Cause.WORKER, "worker:2", 9, 31),
        ({"compute": (40, 20), "apply": 0}, Cause.WORKER, "worker:0", 20, 40),
        ({"load": (15, 15, 15)}, Cause.DATA, "", 15, 36),
        ({"load": (2, 30, 2)}, Cause.DATA, "worker:1", 30, 51),
        ({"apply": 12}, Cause.UPDATE, "ps:0", 12, 32),
        ({"link": (6, 6, 6)}, Cause.LINK, "ps:0", 12, 33),
        ({"link": (0, 0, 20)}, Cause.LINK, "", 40, 61),
        ({"link": (6, 6, 6), "n_bytes": SMALL}, Cause.LATENCY, "", 12, 33),
        ({"queue": (30, 30, 30)}, Cause.CORES, "", 30, 51),
        ({"compute": (20, 21, 20)}, Cause.COMPUTE, "", 20, 22),
        ({"compute": (20,), "load": (0,), "link": (0,)}, Cause.COMPUTE, "", 20, 21),
    ],
)
def test_cause_is_named_with_what_it_costs(
    changes: dict[str, Any], cause: Cause, task: str, cost: float, step: float
) -> None:
    result = verdict(**changes)

    assert (result.cause, result.task) == (cause, task), repr(result)
    assert result.cost_ms == pytest.approx(cost)
    assert result.step_ms == pytest.approx(step)
    assert result.share == pytest.approx(cost / step)
    # The first step looks everything up; the others are all there.
    assert (result.first_step, result.last_step) == (1, 11)
    assert sum(result.parts.values()) == pytest.approx(step)


def test_worker_that_is_slow_in_some_steps_is_a_straggler() -> None:
    by_turns, by_one = {2: 0, 5: 1, 8: 2, 10: 0}, {2: 1, 6: 1, 9: 1}

    result = verdict(slow=by_turns)
    assert (result.cause, result.task) == (Cause.STRAGGLER, "")
    # Of the 11 steps after the first, 4 take 100 ms more than 20 + 1.
    assert result.step_ms == pytest.approx(21 + 400 / 11)
    assert result.cost_ms == pytest.approx(400 / 11)
    assert result.said.startswith(
        "Now and then one of the workers is slow: in 4 of 11 steps it computes 6 times "
        "as long as usual; the others wait 36.4 ms of a step of 57.4 ms (63 %)."
    )
    assert "aggregate=2" in result.help

    result = verdict(slow=by_one)
    assert (result.cause, result.task) == (Cause.STRAGGLER, "worker:1")

    # Twice may be anything, and in most steps it is a slow worker.
    assert verdict(slow={2: 1, 6: 1}).cause is not Cause.STRAGGLER
    assert verdict(slow=dict.fromkeys(range(2, 12), 1)).cause is Cause.WORKER
    # A step in which all are slow keeps nobody waiting.
    assert verdict(compute=(120, 120, 120)).cause is Cause.COMPUTE


def test_verdict_is_a_sentence_with_numbers_and_what_would_help() -> None:
    result = verdict(compute=(20, 20, 29), apply=2)

    assert result.said == (
        "worker:2 computes 45 % longer than the others; they wait 9 ms of a step of "
        "31 ms (29 %)."
    )
    assert str(result) == f"{result.said} {result.help}"
    assert "aggregate" in result.help
    assert result.window == "steps 1 to 11"
    assert repr(result).startswith("<Bottleneck slow worker, steps 1 to 11: worker:2")


def test_one_slow_link_is_told_from_a_slow_line() -> None:
    item, all_of_them = verdict(link=(0, 0, 20)), verdict(link=(6, 6, 6))

    assert set(item.link) == {"ps:0", "worker:2"}
    assert item.said.startswith("The link between ")
    assert all_of_them.link == ()
    assert all_of_them.said.startswith("The line of ps:0 is slow")


def test_speed_that_was_asked_for_says_what_of_a_message_is_latency() -> None:
    # A payload of 1 MB takes 6 ms; 4 of them are the latency that was asked for.
    slow = verdict(link=(6, 6, 6), settings="4gbit,4ms")
    fast = verdict(link=(6, 6, 6), settings="4gbit,1ms")

    assert slow.parts["latency of messages"] == pytest.approx(8)
    assert slow.parts["bytes on their way"] == pytest.approx(4)
    assert slow.cause is Cause.LATENCY
    assert fast.cause is Cause.LINK
    # A step has 33 ms: 8 and 4, or 2 and 10.
    assert ", and the time for their bytes takes another 12 %." in slow.said
    assert ", and their latency takes another 6 %." in fast.said


def test_a_topology_is_advised_only_where_another_one_would_help() -> None:
    by_server, by_bytes = (
        verdict(link=(6, 6, 6), n_bytes=SMALL),
        verdict(link=(6, 6, 6)),
    )
    assert "topology" in by_bytes.help  # a ring spreads what one server carries
    assert "topology" not in by_server.help  # two messages in a row are the fewest

    narrow, long = ring(6, BIG), ring(6, SMALL)
    assert (narrow.cause, long.cause) == (Cause.LINK, Cause.LATENCY)
    assert "topology" not in narrow.help  # all lines of a ring carry as much
    assert "fewer messages in a row" in long.help  # four, where a server has two


@for_each(
    ("changes", "said"),
    [
        ({"apply": 12, "load": (12, 12, 12)}, "loading data 12 ms, updating 12 ms"),
        ({"compute": (20, 10, 10), "apply": 10}, "computing 20 ms, updating 10 ms"),
        ({"n_steps": 3}, "fewer than 3 whole steps"),
    ],
)
def test_nothing_is_guessed(changes: dict[str, Any], said: str) -> None:
    result = verdict(**changes)

    assert result.cause is Cause.NONE
    assert result.said.startswith("No clear cause: ")
    assert said in result.said
    assert result.cost_ms == 0


def test_without_spans_there_is_no_verdict() -> None:
    whole = Scene().trace()

    assert bottleneck(replace(whole, spans=rows(SPAN))).cause is Cause.NONE
    assert bottleneck(replace(whole, epochs=())).cause is Cause.NONE
    assert bottleneck(Trace(whole.tasks)).window == ""


def test_pause_between_two_steps_is_no_part_of_them() -> None:
    assert verdict(apply=12, pause_before=6) == verdict(apply=12)


def test_a_pause_in_which_the_first_worker_validates_is_named() -> None:
    trace = Scene(pause_before=6).trace()
    measured = rows(MEASURE, [(1, 5, b"validation_loss", 1.0, 1, 0)])

    result = bottleneck(replace(trace, measures=measured))

    assert (result.cause, result.task) == (Cause.HOOKS, "worker:0")
    assert result.cost_ms == pytest.approx(
        5_000 / 11
    )  # of the steps that are looked at


def test_only_the_newest_steps_count() -> None:
    trace = Scene(n_steps=60).trace()

    result = bottleneck(trace, most_steps=10)

    assert (result.first_step, result.last_step) == (50, 59)


@for_each(
    ("switched", "looked_at"),
    [(6, (7, 11)), (11, (1, 10))],  # of one step alone nothing can be told
)
def test_steps_before_a_switch_are_not_looked_at_if_there_are_some_after_it(
    switched: int, looked_at: tuple[int, int]
) -> None:
    both = (EpochRow(1, "ring", 0, 0, ""), EpochRow(2, "ps", switched, 1, ""))
    trace = Scene(epochs=both).trace()
    steps, transfers = trace.steps.copy(), trace.transfers.copy()
    for table in (steps, transfers):
        table["epoch"][table["step"] >= switched] = 2

    result = bottleneck(replace(trace, steps=steps, transfers=transfers))

    assert (result.first_step, result.last_step) == looked_at


def test_worker_that_nobody_waits_for_is_no_cause() -> None:
    # Asynchronous: each at its own pace.
    how = (EpochRow(1, "ps-async", 0, 0, ""),)

    assert verdict(compute=(20, 20, 60), epochs=how).cause is not Cause.WORKER


TIMES = st.lists(st.integers(0, 40), min_size=3, max_size=3)


@given(TIMES, TIMES, TIMES, TIMES, st.integers(0, 30), st.sampled_from([BIG, SMALL]))
def test_all_time_of_a_step_is_accounted_for(
    compute: list[int],
    load: list[int],
    queue: list[int],
    link: list[int],
    apply: int,
    n_bytes: int,
) -> None:
    times = {"compute": compute, "load": load, "queue": queue, "link": link}

    result = verdict(**times, apply=apply, n_bytes=n_bytes)

    own = [sum(item) for item in zip(compute, load, queue, strict=True)]
    there_and_back = [a + 2 * b for a, b in zip(own, link, strict=True)]
    if result.step_ms:
        # A worker with a fast link waits for the others, and for the server.
        assert result.step_ms >= max(there_and_back) + apply - max(link) - 1e-9
        assert sum(result.parts.values()) == pytest.approx(result.step_ms)
        assert 0 <= result.share <= 1
