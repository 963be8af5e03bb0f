"""Where two recorded trainings first differ.

First the records are compared: the jobs, the digests of data and step functions, the
loss of each worker in each step, digests of parameters, and the order of asynchronous
pushes. That gives a step, or a range of steps. If the two were given different things,
both are computed again, side by side, until a worker's gradient or the parameters
differ; the exchange of that step gives the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from kit.arithmetic import differences
from kit.errors import InvalidArgumentError, KitError
from kit.exchange.compression.compressor import Compressor
from kit.exchange.ports.memory import Array
from kit.exchange.stepping.stepped_exchange import SteppedMessage
from kit.recording.content import Content
from kit.recording.facts import code_difference, data_difference, step_difference
from kit.recording.loaded import content_of
from kit.recording.recomputing.recomputation import Recomputation
from kit.recording.recomputing.stretches import stretches
from kit.recording.replay import digests, go_to, losses, opened, orders, pushed
from kit.recording.replay_inputs import Own, ReplayInputs, inputs_for
from kit.training.client.run import Run
from kit.training.core.terms import difference, terms_of
from kit.training.optimizers.rule import Optimizer

_FAR: Final = 1 << 62
Key = TypeVar("Key", int, tuple[int, int], tuple[int, str, int])
_WEAK: Final = ("configuration", "length")  # they change no bit


@dataclass(frozen=True)
class Difference:
    """Where two recordings first differ.

    Attributes:
        step: the number of the step, from 0; None if no step is known to differ.
        task: the worker whose gradient or loss differs, or the task that updates the
            parameters.
        what: "gradient", "update", "parameters", "loss", "order", "contributors" (whose
            gradients counted, with backup workers), "configuration" or "length"; "" if
            no step differs.
        parameters: those whose gradients or values differ, as far as is known.
        message: the first message with different contents; None if unknown.
        facts: how the arguments differ: data, seed, step function, and so on.
        text: all of this in a sentence or two.
    """

    step: int | None = None
    task: str = ""
    what: str = ""
    parameters: tuple[str, ...] = ()
    message: str | None = None
    facts: tuple[str, ...] = ()
    text: str = "no difference was found"

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.what or self.facts)

    def __str__(self) -> str:
        return self.text


def diff(
    a: str | Path | Run,
    b: str | Path | Run,
    *,
    step: Callable[..., Any] | None = None,
    data: Any = None,
    optimizer: Optimizer | str | None = None,
    outer: Optimizer | str | None = None,
    compress: Compressor | str | None = None,
    trust_step: bool = False,
) -> Difference:
    """Return the first step, task and message in which two recordings differ.

    Parameters
    ----------
    a, b : str, Path or Run
        Folders of recordings, or what `kit.load_run` gave.
    step, data, optimizer, outer, compress : optional
        As for `kit.replay`, for a recording that was made with it. If something is
        missing, only the records are compared, which may give a range of steps.
    trust_step : bool, default False
        Load step functions and objects that were stored with the recordings, or import
        those that they name: that executes code which the files choose.

    Returns
    -------
    Difference
        It is false if nothing differs; printed, it says so in a sentence.

    Raises
    ------
    InvalidArgumentError
        The two do not train the same parameters on the same tasks.

    Notes
    -----
    Reads both once, and at most replays both up to the difference.

    Examples
    --------
    Two trainings that should have been the same::

        print(kit.diff("run-1", "run-2", step=step))
    """
    first, other = content_of(a), content_of(b)
    if first.job.specs != other.job.specs or first.job.tasks != other.job.tasks:
        said = difference(_terms(first), _terms(other))
        raise InvalidArgumentError(
            f"{first.name} and {other.name} cannot be compared step by step: {said}."
        )
    facts = tuple(_facts(first, other))
    own = {"optimizer": optimizer, "outer": outer, "compress": compress}
    inputs = [
        _maybe_inputs(content, step, data, own, trust_step=trust_step)
        for content in (first, other)
    ]
    from_evidence = _evidence(first, other)
    # Given the same, both would be computed again to the same bits.
    if facts and None not in inputs and from_evidence.what != "order":
        computed = _side_by_side(first, other, inputs)
        is_first = not from_evidence.what or from_evidence.what in _WEAK
        # A replay does not show what happened in the recorded trainings by chance.
        is_chance = from_evidence.what == "contributors"
        last = _step(from_evidence) - is_chance
        if computed is not None and (is_first or _step(computed) <= last):
            from_evidence = computed
    return _worded(first, other, from_evidence, facts)


def _step(result: Difference) -> int:
    return _FAR if result.step is None else result.step


def _terms(content: Content) -> dict[str, str]:
    terms = terms_of(content.job)
    return {name: text for name, text in terms.items() if name != "checkpoint"}


def _facts(left: Content, other: Content) -> Iterator[str]:
    said = difference(_terms(left), _terms(other))
    if said:
        yield said
    pairs = {name: (left.about[name], other.about[name]) for name in ("data", "step")}
    if None not in pairs["data"] and (said := data_difference(*pairs["data"])):
        yield said.replace(" and was ", " in the second and was ")
    if None not in pairs["step"] and (said := step_difference(*pairs["step"])):
        yield said.replace("in the recording", "in the first")
    for name in left.own.keys() & other.own.keys():
        if said := code_difference(name, left.own[name], other.own[name]):
            yield said.replace("in the recording", "in the first")
    yield from _arithmetic(left, other)
    if 0 in left.states and 0 in other.states:
        first, second = left.state(0), other.state(0)
        names = [n for n in first if first[n].tobytes() != second[n].tobytes()]
        if names:
            yield f"the initial values of {', '.join(names)} differ"


def _arithmetic(a: Content, other: Content) -> Iterator[str]:
    first, second = a.arithmetic, other.arithmetic
    if first is None or second is None:
        return
    if first.threads != second.threads:
        yield (
            f"the first computes with {first.threads} BLAS threads and the second "
            f"with {second.threads}"
        )
    yield from differences([("the first", first), ("the second", second)])
    for name in sorted(a.libraries.keys() & other.libraries.keys()):
        if a.libraries[name] != other.libraries[name]:
            yield (
                f"{name} is {a.libraries[name]} in the first and "
                f"{other.libraries[name]} in the second"
            )


# --------------------------------------------------------------------------------------
# Where the records differ.


def _evidence(first: Content, other: Content) -> Difference:
    """Return the first difference that the records show."""
    evidence = [
        *_orders(first, other),
        *_contributors(first, other),
        *_losses(first, other),
        *_digests(first, other),
        *_configurations(first, other),
    ]
    if first.n_done != other.n_done:
        at = min(first.n_done, other.n_done)
        text = f"the first has {first.n_done} steps and the second {other.n_done}"
        evidence.append(Difference(at, "", "length", text=text))
    # What changes no bit counts only where nothing else differs.
    return min(
        evidence,
        key=lambda each: (each.what in _WEAK, _step(each)),
        default=Difference(),
    )


def _first_unequal(first: Mapping[Key, Any], second: Mapping[Key, Any]) -> list[Key]:
    """Return the first of their keys under which two have different values, if any."""
    keys = first.keys() & second.keys()
    return sorted(key for key in keys if first[key] != second[key])[:1]


def _orders_by_step(content: Content) -> dict[tuple[int, int], Any]:
    """Return the pushes of asynchronous stretches in order, by step and server."""
    order_of = orders(content)
    return {
        (stretch.begin, server): order_of[stretch.row.number, server]
        for stretch in stretches(content.epochs, content.n_done)
        for server in content.job.ps
        # With backup workers, pushes are recorded in synchronous steps too.
        if stretch.row.is_asynchronous and (stretch.row.number, server) in order_of
    }


def _orders(content_a: Content, other: Content) -> Iterator[Difference]:
    both = _orders_by_step(content_a), _orders_by_step(other)
    names = [task.short for task in content_a.job.tasks]
    for key in both[0].keys() & both[1].keys():
        begin, server = key
        pairs = enumerate(zip(both[0][key], both[1][key], strict=False))
        for offset, (first, second) in pairs:
            if first != second:
                text = (
                    f"{names[server]} took the push of {names[first]} in the first and "
                    f"that of {names[second]} in the second"
                )
                yield Difference(begin + offset, names[server], "order", text=text)
                break


def _contributors(content_a: Content, other: Content) -> Iterator[Difference]:
    first, second = (
        {step: row.counted for step, row in pushed(content).items()}
        for content in (content_a, other)
    )
    names = [task.short for task in content_a.job.tasks]
    for step in _first_unequal(first, second):
        said = [
            ", ".join(names[worker] for worker in sorted(counted))
            for counted in (first[step], second[step])
        ]
        text = f"it was made of {said[0]} in the first and {said[1]} in the second"
        yield Difference(step, "", "contributors", text=text)


def _losses(content_a: Content, other: Content) -> Iterator[Difference]:
    losses_of = [losses(content) for content in (content_a, other)]
    # By bits: a NaN is not equal to itself.
    bits = [
        {key: np.float64(loss).tobytes() for key, loss in by_step.items()}
        for by_step in losses_of
    ]
    for step, task in _first_unequal(*bits):
        name = content_a.job.tasks[task].short
        here, there = (by_step[step, task] for by_step in losses_of)
        text = f"{name} has the loss {here!r} in the first and {there!r} in the second"
        yield Difference(step, name, "loss", text=text)


def _digests(content_a: Content, other: Content) -> Iterator[Difference]:
    # By the topology that cuts the shares, too: others may have other shares.
    first, second = (
        {
            (step, row.plain_topology, writer): value
            for step, rows in digests(content).items()
            for row, writer, value in rows
        }
        for content in (content_a, other)
    )
    for key in _first_unequal(first, second):
        step, _, writer = key
        name = content_a.job.tasks[writer].short
        equal = [each for each, *_ in first.keys() & second.keys() if each < step]
        text = (
            f"the parameters that {name} updates differ after {step} steps, "
            f"and were equal after {max(equal, default=0)}"
        )
        # The step before has made them.
        yield Difference(max(0, step - 1), name, "parameters", text=text)


def _configurations(left: Content, other: Content) -> Iterator[Difference]:
    pair = [stretches(content.epochs, content.n_done) for content in (left, other)]
    for first, second in zip_longest(*pair):
        rows = [
            None if each is None else (each.begin, each.row.topology, each.row.link)
            for each in (first, second)
        ]
        if rows[0] != rows[1]:
            at = min(row[0] for row in rows if row is not None)
            said = [
                "nothing new" if row is None else f"{row[1]} {row[2]}".strip()
                for row in rows
            ]
            text = f"the first goes on with {said[0]} and the second with {said[1]}"
            yield Difference(at, "", "configuration", text=text)
            return


# --------------------------------------------------------------------------------------
# Computed again, side by side.


def _maybe_inputs(
    content: Content, step: Any, data: Any, own: Own, *, trust_step: bool
) -> ReplayInputs | None:
    """Return what a recording can be computed again with; None if it cannot be."""
    for choice in product((own, {}), (step, None), (data, None)):
        objects, function, arrays = choice
        try:
            return inputs_for(content, function, arrays, objects, trust_step=trust_step)
        except KitError:
            continue
    return None


def _side_by_side(
    first: Content, other: Content, inputs: Sequence[ReplayInputs | None]
) -> Difference | None:
    """Return the first difference of two replays; None if they have none, or end."""
    last = min(first.n_done, other.n_done)
    contents = (first, other)
    # Equal parameters do not mean equal slots, so no digest says where to begin.
    begin = max(min(each.states, default=_FAR) for each in contents)
    if begin >= last:
        return None
    with ExitStack() as stack:
        try:
            engines = [
                stack.enter_context(opened(content, its))
                for content, its in zip(contents, inputs, strict=True)
                if its is not None
            ]
            for engine, content in zip(engines, contents, strict=True):
                go_to(engine, content, begin)
            return _walk(first, engines[0], engines[1], last)
        except KitError:
            return None  # then the records must suffice


def _walk(
    content: Content, a: Recomputation, b: Recomputation, last: int
) -> Difference | None:
    if differing := _differing(content, a.flat(), b.flat()):
        return Difference(a.step, "", "parameters", differing)
    while a.step < last:
        stretch, beside = a.enter(), b.enter()
        if stretch.row.is_asynchronous or beside.row.is_asynchronous:
            until = min(stretch.end, beside.end, last)
            for engine in (a, b):
                while engine.step < until:
                    engine.advance(until)
            if differing := _differing(content, a.flat(), b.flat()):
                return None  # the losses say more
            continue
        a.compute()
        b.compute()
        pair = a.gradients(), b.gradients()
        for worker, first, second in zip(content.job.workers, *pair, strict=True):
            if differing := _differing(content, first, second):
                name, message = content.job.tasks[worker].short, None
                is_planned = not (a.schedule.is_served or b.schedule.is_served)
                if is_planned and a.topology().name == b.topology().name:
                    message = _message(a, pair)
                return Difference(a.step, name, "gradient", differing, message)
        a.complete()
        b.complete()
        if differing := _differing(content, a.flat(), b.flat()):
            return Difference(a.step - 1, "", "update", differing)
    return None


def _differing(content: Content, first: Array, second: Array) -> tuple[str, ...]:
    """Return the parameters in which two flat buffers differ."""
    return tuple(
        leaf.spec.name
        for leaf in content.job.layout.leaves
        for part in [slice(leaf.range.lo, leaf.range.hi)]
        if not np.array_equal(first[part], second[part])
    )


def _message(
    engine: Recomputation, gradients: tuple[list[Array], list[Array]]
) -> str | None:
    """Return the first message of a step with different contents, in words."""
    first, second = (engine.exchanges(each, 1) for each in gradients)
    messages = [message for each in first for message in each.messages]
    payloads, others = (
        [payload for each in some for payload in each.payloads]
        for some in (first, second)
    )
    names = first[0].names
    for number, (payload, another) in enumerate(zip(payloads, others, strict=True)):
        if payload != another:
            entry: SteppedMessage = messages[number]
            return (
                f"message {number + 1} of {len(messages)}, "
                f"{names[entry.source]} to {names[entry.destination]} "
                f"({entry.kind.name.lower()})"
            )
    return None  # a single worker sends nothing


# --------------------------------------------------------------------------------------
# In words.


def _worded(
    first: Content, other: Content, result: Difference, facts: tuple[str, ...]
) -> Difference:
    names = f"{first.name} and {other.name}"
    more = f" What was given differs too: {'; '.join(facts)}." if facts else ""
    if not result.what:
        text = f"{names} do not differ in any step."
        return replace(result, facts=facts, text=text + more)
    which = ", ".join(result.parameters)
    said = {
        "gradient": f"the gradient of {result.task} ({which})",
        "update": f"what the update makes of equal gradients ({which})",
        "parameters": f"the parameters ({which})" if which else result.text,
    }.get(result.what, result.text)
    text = f"{names} differ for the first time in step {result.step}: {said}"
    if result.message:
        text += f"; the first message with other bytes is {result.message}"
    return replace(result, facts=facts, text=f"{text}.{more}")
