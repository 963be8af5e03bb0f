"""Friendly checkers of the lessons' exercises: each returns a sentence to be shown.

Pure: what is right is computed here from the question's own numbers, independently of
the kit. A learner's function is called with copies of what it gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.demo.verdict import AnswerVerdict, function, number
from kit.errors import FailedPreconditionError

if TYPE_CHECKING:
    import pandas as pd

Function = Callable[..., Any]


# -- 01: placement ------------------------------------------------------------------


def moved(transfers: Sequence[Any], at_most: int) -> AnswerVerdict:
    """Judge a placement by the bytes that moved; `transfers` are those of a run."""
    total = sum(one.n_bytes for one in transfers)
    if total <= at_most:
        return AnswerVerdict(
            True, f"Right. {total:,} bytes moved: the work went to the data."
        )
    most = max(transfers, key=lambda one: one.n_bytes)
    words = (
        f"{total:,} bytes moved, and {at_most:,} are enough. Most of them are "
        f"{most.tensor}; where must its reader be, that it need not move?"
    )
    return AnswerVerdict(False, f"Not yet: {words}")


def tower_bytes(given: object, towers: int, size: int) -> AnswerVerdict:
    """Judge the bytes of a step with parameters of `size` bytes on a server."""
    return number(
        given,
        2 * towers * size,
        well="Each tower reads all parameters and sends back as many gradients.",
        hints={
            towers * size: "that is one direction; what comes back?",
            2 * size: "that is one tower.",
        },
        otherwise="count what goes to one tower and comes back from it.",
        unit="bytes",
    )


# -- 02: parameter server -----------------------------------------------------------


def server_step(given: object) -> AnswerVerdict:
    """Judge `step(weights, gradients, rate)`, a server's synchronous update."""

    def judge(step: Function) -> str:
        dice = np.random.default_rng(5)
        for n in (1, 2, 5):
            weights, gradients = dice.normal(size=4), list(dice.normal(size=(n, 4)))
            found = step(weights.copy(), [one.copy() for one in gradients], 0.5)
            if found is None:
                return "it returns nothing; end it with return."
            if np.allclose(found, weights - 0.5 * np.sum(gradients, 0)) and n > 1:
                return (
                    f"with {n} workers the step is {n} times too long; mean, not sum."
                )
            if np.allclose(found, weights + 0.5 * np.mean(gradients, 0)):
                return "it goes uphill: the gradient is subtracted."
            if not np.allclose(found, weights - 0.5 * np.mean(gradients, 0)):
                return f"with {n} workers the weights are not those of one mean step."
        return ""

    return function(given, judge, "That is all that a parameter server computes.")


def server_bytes(given: object, n: int, size: int) -> AnswerVerdict:
    """Judge the bytes that one server sends and receives in a step, both together."""
    return number(
        given,
        2 * n * size,
        well=f"{n} gradients come in, {n} copies of the parameters go out.",
        hints={
            n * size: "that is one direction; gradients come in and parameters go out.",
            2 * size: "that is the traffic of one worker; how many are there?",
        },
        otherwise="think of what comes in from each worker and what goes out to it.",
        unit="bytes",
    )


def servers_needed(given: object, n: int) -> AnswerVerdict:
    """Judge how many servers carry no more each than one of `n` workers does."""
    return number(
        given,
        n,
        well="2 n S / p is no more than 2 S when p is n: as many servers as workers.",
        hints={1: "one server carries the traffic of all workers."},
        otherwise="p servers share 2 n S bytes; a worker carries 2 S.",
        unit="servers",
    )


# -- 03: ring -----------------------------------------------------------------------


def ring_bytes(given: object, n: int, size: int) -> AnswerVerdict:
    """Judge the bytes that a worker of a ring sends in a step."""
    return number(
        given,
        2 * (n - 1) / n * size,
        well=f"2 (n-1) chunks of S / {n} each. With many workers: nearly 2 S.",
        hints={
            (n - 1) / n * size: "that is once round; what is the second time for?",
            2 * size: "nearly: a chunk need not travel the whole circle.",
            (n - 1) * size: "that is the ring which passes whole gradients on.",
            2 * (n - 1) * size: "so many messages, yes, but each is only a chunk.",
        },
        otherwise="multiply the number of messages by the bytes of a chunk.",
        unit="bytes",
    )


def ring_messages(given: object, n: int) -> AnswerVerdict:
    """Judge how many messages a worker of a ring sends in a step."""
    return number(
        given,
        2 * (n - 1),
        well="n-1 to add up, n-1 to hand round.",
        hints={
            n - 1: "after that each worker has one complete chunk; what of the others?",
            2 * n: "nearly: a chunk need not return to where it began.",
        },
        otherwise="go round with the picture: count the messages of one worker.",
        unit="messages",
    )


def schedule(given: object) -> AnswerVerdict:
    """Judge `chunk(rank, hop, n)`: which chunk a worker sends in a hop of the sum."""
    return function(given, _walk_the_ring, "Each worker ends with one whole sum.")


def _walk_the_ring(chunk: Function) -> str:
    for n in (2, 3, 4, 7):
        has = [[{rank} for _ in range(n)] for rank in range(n)]  # whose parts are in
        for hop in range(n - 1):
            sent = [chunk(rank, hop, n) for rank in range(n)]
            for rank, which in enumerate(sent):
                if not (isinstance(which, Integral) and 0 <= int(which) < n):
                    return f"chunk({rank}, {hop}, {n}) is {which!r}, not 0 to {n - 1}."
            parts = [set(has[rank][which]) for rank, which in enumerate(sent)]
            for rank, which in enumerate(sent):
                after = has[(rank + 1) % n][which]
                if twice := after & parts[rank]:
                    return (
                        f"{n} workers, hop {hop}: worker {rank} sends chunk {which}, "
                        f"and the gradient of worker {min(twice)} is added twice."
                    )
                after |= parts[rank]
        whole = [sum(len(parts) == n for parts in mine) for mine in has]
        if whole != [1] * n:
            return f"{n} workers: they end with {whole} whole sums; each should have 1."
    return ""


# -- 00 and 04: switch it -----------------------------------------------------------


def around_switch(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the last 20 steps with a server and the first 20 of a ring.

    `frame` is that of a run. Only steps on links of one speed can be compared; raises
    `FailedPreconditionError` if there are none.
    """
    ring = frame[frame["topology"] == "ring"]
    for link in ring["link"].unique():
        after = ring[ring["link"] == link]
        equal = (frame["topology"] == "ps") & (frame["link"] == link)
        before = frame[equal & (frame.index < after.index[0])]
        if len(before) > 1:
            return before.tail(20), after.head(20)
    raise FailedPreconditionError(
        "there is nothing to compare: no step of a ring follows steps with a server on "
        "equal links. Begin the training again and, before you change the speed of the "
        "links, press ring, or run: run.topology = 'ring'"
    )


def predicted_ms(
    topology: str, n: int, size: int, mbit: float, delay_ms: float
) -> float:
    """Return the milliseconds from step to step that the lines need for `size` bytes.

    A server takes in gradients while it still sends copies to others.

    >>> predicted_ms("ps", n=4, size=100_000, mbit=100, delay_ms=1)
    42.0
    >>> predicted_ms("ring", n=4, size=100_000, mbit=100, delay_ms=1)
    18.0
    """
    once = 8 * size / mbit / 1e3
    if topology == "ps":
        return (n + 1) * once + 2 * delay_ms
    return 2 * (n - 1) / n * once + 2 * (n - 1) * delay_ms


def even_ms(given: object, n: int, size: int, mbit: float) -> AnswerVerdict:
    """Judge the latency at which server and ring take equally long, in ms."""
    ring = 2 * (n - 1) / n  # times that a line is occupied by S bytes
    saved = n + 1 - ring
    once = 8 * size / mbit / 1e3
    return number(
        given,
        saved * once / (2 * (n - 1) - 2),
        well="Below it the ring is quicker, above it the server.",
        hints={
            saved
            * once
            / (2 * (n - 1)): "the server's messages have a latency as well.",
            (2 * n - ring)
            * once
            / (2 * (n - 1) - 2): "a server sends copies while gradients come in.",
            saved * once / 2: "how many more messages wait for each other in the ring?",
            saved * once / (n - 2) / 2e3: "that is in seconds; the question is in ms.",
        },
        otherwise="set the two formulas equal and solve for the latency.",
        unit="ms",
        share=0.03,
    )


def quicker(given: object) -> AnswerVerdict:
    """Judge `quicker(n, size, mbit, delay_ms)`, which chooses between ps and ring."""

    def judge(choose: Function) -> str:
        for case in ((8, 10**6, 100, 0.1), (4, 10**3, 1000, 5), (2, 10**5, 100, 9)):
            times = {name: predicted_ms(name, *case) for name in ("ps", "ring")}
            found = choose(*case)
            if found != min(times, key=times.__getitem__):
                said = ", ".join(f"{name} {ms:.3g} ms" for name, ms in times.items())
                return f"for {case} it chose {found!r}; by the formulas: {said}."
        return ""

    return function(given, judge, "For large models and for small ones.")


# -- 09: choose ---------------------------------------------------------------------


def servers_that_win(
    given: object, n: int, once_ms: float, delay_ms: float
) -> AnswerVerdict:
    """Judge how many servers, 1, 2, 4 ..., make a step shorter than a ring's."""
    ring = 2 * (n - 1) / n * once_ms + 2 * (n - 1) * delay_ms
    counts = [2**power for power in range(n.bit_length()) if 2**power <= n]
    times = {p: (n / p + 1) * once_ms + 2 * delay_ms for p in counts}
    right = min(p for p, ms in times.items() if ms < ring)
    wrong = {
        p: f"that takes {ms:,.4g} ms, and the ring {ring:,.4g} ms."
        for p, ms in times.items()
        if p < right
    }
    return number(
        given,
        right,
        well=f"{times[right]:,.4g} ms, and the ring takes {ring:,.4g} ms.",
        hints=wrong | {p: "would fewer be enough?" for p in counts if p > right},
        otherwise="compare a once + b latency of both.",
        unit="servers",
    )


def slow_line(given: object, n: int, slower: float) -> AnswerVerdict:
    """Judge how many times *once* a ring's step takes if one line is slower."""
    alike = 2 * (n - 1) / n
    return number(
        given,
        alike * slower,
        well="All workers wait for that line: it carries as many bytes as others.",
        hints={
            alike: "that is with equal lines.",
            slower: "how often does S pass a line of a ring?",
            alike * (slower + n - 1) / n: "that is a mean; which line decides?",
        },
        otherwise="which line decides, and how many bytes does it carry?",
    )


def fastest(given: object, seconds: Mapping[str, float]) -> AnswerVerdict:
    """Judge which of some exchanges takes the fewest seconds."""
    if given is None or given is ...:
        return number(given, 0, well="", hints={}, otherwise="")
    if given not in seconds:
        return AnswerVerdict(
            False, f"Not yet: {given!r} is not one of {', '.join(map(repr, seconds))}."
        )
    best = min(seconds, key=seconds.__getitem__)
    its = f"{given} takes {1e3 * seconds[str(given)]:,.3g} ms a step"
    if given == best:
        return AnswerVerdict(True, f"Right. {its}; no other is faster.")
    times = seconds[str(given)] / seconds[best]
    return AnswerVerdict(
        False, f"Not yet: {its}, and another one is faster by a factor of {times:.2g}."
    )


# -- 05: evolution strategies -------------------------------------------------------


def population_bytes(given: object, size: int) -> AnswerVerdict:
    """Judge the bytes that a server sends a worker in a step of evolution."""
    return number(
        given,
        size,
        well="Networks do not travel, only parameters do, whatever the population.",
        hints={10 * size: "the networks are made by the worker that judges them."},
        otherwise="each worker makes its own networks; what must it be told?",
        unit="bytes",
    )


def losses_bytes(given: object, population: int, size: int) -> AnswerVerdict:
    """Judge the bytes of all losses of a step, where only these travel."""
    return number(
        given,
        8 * population,
        well=f"However large a network is; here it has {size:,} bytes.",
        hints={
            population: "that is how many losses there are.",
            size: "neither networks nor directions travel.",
        },
        otherwise="there is one loss for each network.",
        unit="bytes",
    )


def direction(given: object) -> AnswerVerdict:
    """Judge `direction(noise, plus, minus, sigma)`, the gradient out of losses."""

    def judge(found_by: Function) -> str:
        dice = np.random.default_rng(6)
        noise, slope = dice.normal(size=(4000, 3)), np.array([1.0, -2.0, 0.5])
        plus, minus = noise @ slope * 0.1 + 7, -noise @ slope * 0.1 + 7
        found = found_by(noise.copy(), plus.copy(), minus.copy(), 0.1)
        right = ((plus - minus) / 0.2) @ noise / len(noise)
        if found is None:
            return "it returns nothing; end it with return."
        if np.shape(found) != (3,):
            return f"its shape is {np.shape(found)}, that of one network is (3,)."
        if np.allclose(found, -right):
            return "it points downhill; a gradient points where the loss grows."
        ratio = float(np.linalg.norm(found) / np.linalg.norm(right))
        if not math.isclose(ratio, 1, rel_tol=1e-6):
            return f"it is {ratio:,.4g} times as long as it should be."
        return "" if np.allclose(found, right) else "it points in another direction."

    return function(given, judge, "No loss was differentiated.")


# -- 06: survive --------------------------------------------------------------------


def steps_again(given: object, every_s: float, step_s: float) -> AnswerVerdict:
    """Judge how many steps a loss costs on average, with a copy every `every_s`."""
    return number(
        given,
        every_s / 2 / step_s,
        well="On average the newest copy is half as old as it can be.",
        hints={
            every_s / step_s: "that is the worst case; on average?",
            every_s / 2: "that is in seconds; how many steps are done in them?",
            every_s / 2 / step_s / 1e3: "the step's time is in seconds as well.",
        },
        otherwise="how old is the newest copy on average, and how many steps is that?",
        unit="steps",
        share=0.05,
    )


def spread(given: object) -> AnswerVerdict:
    """Judge `spread(logical, tasks)`: how many logical workers each task hosts."""

    def judge(share_out: Function) -> str:
        for logical, tasks in ((4, 2), (12, 5), (6, 6), (7, 3)):
            found, call = share_out(logical, tasks), f"spread({logical}, {tasks})"
            if not isinstance(found, Sequence) or isinstance(found, str):
                return f"{call} is {found!r}; return a list of numbers."
            if len(found) != tasks:
                return f"{call} has {len(found)} numbers for {tasks} tasks."
            if sum(found) != logical:
                return f"{call} places {sum(found)} of {logical} logical workers."
            if max(found) - min(found) > 1:
                return f"{call} is {list(found)}: one task has two more than another."
            if list(found) != sorted(found, reverse=True):
                return f"{call} is {list(found)}: the first tasks should have more."
        return ""

    return function(given, judge, "So no task waits long for another.")


def neighbours(given: object, n: int) -> AnswerVerdict:
    """Judge the chance that two of `n` tasks in a circle are neighbours."""
    return number(
        given,
        2 / (n - 1),
        well=f"Whichever dies first, two of the {n - 1} others are its neighbours.",
        hints={
            1
            / (n - 1): "a task has two neighbours: one holds its copy; and the other?",
            2 / n: "the second loss is a different task from the first.",
            n: "that is the number of pairs; of how many?",
        },
        otherwise="fix the first task; how many of the others are its neighbours?",
        share=0.01,
    )


# -- 07: send less ------------------------------------------------------------------


def feedback(given: object) -> AnswerVerdict:
    """Judge `feedback(gradients, send)`, which loses nothing of what is not sent."""

    def judge(feed: Function) -> str:
        def send(whole: Any) -> Any:
            return np.where(np.abs(whole) == np.abs(whole).max(), whole, 0.0)

        gradients, left = [np.array([3.0, 1.0, -1.25])] * 8, np.zeros(3)
        right = []
        for gradient in gradients:
            right.append(send(gradient + left))
            left = gradient + left - right[-1]
        found = feed([one.copy() for one in gradients], send)
        if not isinstance(found, Sequence) or len(found) != len(gradients):
            return f"return a list of {len(gradients)} arrays, one for each gradient."
        if not np.any(found, axis=0).all():
            return "some elements never arrived; add what was left out to the next one."
        if not np.allclose(found, right):
            lost = sum(gradients) - sum(found) - left
            return f"{np.abs(lost).max():.3g} of an element was lost, or came twice."
        return ""

    return function(given, judge, "What is left out comes late, but all of it comes.")


def largest_rank(given: object, n: int, m: int, share: float) -> AnswerVerdict:
    """Judge the largest rank whose two factors take a share of an n x m matrix."""
    most = int(share * n * m / (n + m))
    return number(
        given,
        most,
        well=f"{most} ({n} + {m}) numbers travel, of {n * m:,}.",
        hints={
            most + 1: "that takes a little more than the share.",
            int(share * n * m / max(n, m)): "there are two factors; both travel.",
            share * n * m / (n + m): "a rank is a whole number.",
        },
        otherwise="r (n + m) numbers travel instead of n m.",
    )


# -- 10: write it yourself ----------------------------------------------------------


def swap_partner(given: object) -> AnswerVerdict:
    """Judge `partner(rank, hop)`, with whom each worker swaps sums in a hop."""

    def judge(partner: Function) -> str:
        for n_hops in (1, 2, 3):
            n = 2**n_hops
            added = [{rank} for rank in range(n)]
            for hop in range(n_hops):
                with_whom = [partner(rank, hop) for rank in range(n)]
                wrong = _no_pairs(with_whom) or _added_twice(added, with_whom)
                if wrong:
                    return f"with {n} workers, in hop {hop}, {wrong}"
                added = [own | added[with_whom[rank]] for rank, own in enumerate(added)]
        return ""

    return function(given, judge, "Each hop doubles the number of workers in a sum.")


def _no_pairs(with_whom: Sequence[Any]) -> str:
    """Return why these are no pairs; "" if they are."""
    n = len(with_whom)
    for rank, other in enumerate(with_whom):
        if not isinstance(other, Integral) or not 0 <= int(other) < n:
            return f"worker {rank} swaps with {other!r}; there are 0 to {n - 1}."
        if other == rank:
            return f"worker {rank} swaps with itself."
        if with_whom[int(other)] != rank:
            return (
                f"worker {rank} swaps with {other}, but {other} with "
                f"{with_whom[int(other)]}."
            )
    return ""


def _added_twice(added: Sequence[set[int]], with_whom: Sequence[int]) -> str:
    """Return whose number would be added twice; "" if nobody's."""
    for rank, other in enumerate(with_whom):
        twice = added[rank] & added[other]
        if twice:
            return f"worker {rank} and {other} both have the number of {min(twice)}."
    return ""
