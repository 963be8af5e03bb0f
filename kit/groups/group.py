"""`kit.group()`: collectives and messages of tasks, compared, counted and slowed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any
from weakref import finalize

import numpy as np

from kit.errors import InvalidArgumentError, MemberMismatch
from kit.exchange.topologies import topology as topologies
from kit.exchange.topologies.topology import Topology
from kit.groups import scope
from kit.groups.calls import CallSeen, Signature, differ, digest
from kit.groups.generation import Bound, CallsDiffer, GroupLinks, Recipe
from kit.groups.messages import GroupMessage, Messages, Pending
from kit.groups.recipes import Recipes
from kit.groups.state import CallUnderWay, GroupState
from kit.groups.traffic import GroupTraffic, trace_of, traffic_of
from kit.groups.values import (
    Array,
    Form,
    Value,
    leaves,
    packed,
    rebuilt,
    said,
    taken,
)
from kit.groups.watch import CallWatch
from kit.handles import handle
from kit.task import Task
from kit.trace.trace import Trace

OPS = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}
_NONE: Form = {"none": []}
Forms = list[Form]


@handle
class TaskGroup:
    """Some tasks that exchange values; made by `kit.group`.

    Every task makes the same calls in the same order. Each call is compared before a
    byte moves, and a call that cannot be completed ends on all tasks with an error that
    says who is where. The group can be used again after that, unless a task is lost.

    Values are arrays of numpy, cupy or torch, numbers, and dicts or lists of them;
    results are new values of the same kind. Sums are added in the order of a training:
    of n equal pieces, piece c as the tasks c, c+1, ..., c-1.

    Attributes
    ----------
    rank, size : int
        This task's number in the group, and how many tasks there are.
    tasks : tuple of Task
        All tasks, in the order of their ranks.

    Examples
    --------
    In a cell that begins with ``%%on worker``::

        group = kit.group()
        total = group.all_reduce(np.arange(4.0))
        parts = group.all_gather(group.rank)
        group.send(total, to=(group.rank + 1) % group.size)
        before = group.receive((group.rank - 1) % group.size)
    """

    rank: int
    size: int
    tasks: tuple[Task, ...]

    def __init__(
        self,
        state: GroupState,
        watch: CallWatch,
        make: Callable[[str, tuple[Task, ...]], TaskGroup],
    ) -> None:
        members, self._make = state.members, make
        self.rank, self.size = members.me, len(members.tasks)
        self.tasks = members.tasks
        self._state, self._watch = state, watch
        self._recipes = Recipes(
            self.size, self.rank, members.hosts, members.settings.bucket_bytes
        )
        self._messages = Messages(state)
        self._digests: dict[str, int] = {}
        # What nobody holds any more is closed; the state does not know this object.
        self._end = finalize(self, state.close)

    # -- collectives -----------------------------------------------------------

    def all_reduce(
        self,
        value: Any,
        op: str = "sum",
        *,
        out: Any = None,
        algorithm: str | None = None,
    ) -> Any:
        """Return the sum of all tasks' values, on all tasks.

        Parameters
        ----------
        value : array, number, dict or list
            The same kind, shapes and dtypes on all tasks.
        op : {"sum", "mean", "max", "min", "prod"}
            What is made of them. The mean is the sum divided by the size.
        out : numpy.ndarray, optional
            Where the result of an array is put; it is returned then.
        algorithm : str, optional
            The topology whose plan is carried out, by default the ring; one of your own
            can be registered with `kit.exchange.register`.

        Raises
        ------
        MemberMismatch
            Other tasks make another call, or give another kind of value.
        PeerLost, AbortedError
            A task is lost, has failed, was interrupted or has left the cell.
        """
        topology = _topology(algorithm)
        given = taken(value, "all_reduce")
        ufunc = _check_op("all_reduce", op, given)
        _check_out(out, given, op)
        options = [("op", op)] if op != "sum" else []
        options += [("algorithm", topology.name)] if algorithm else []
        signature = Signature("all_reduce", given.text, tuple(options))

        def recipe(_: Forms) -> Recipe:
            return self._recipes.all_reduce(given.form, topology, ufunc)

        arrays, _ = self._collective(signature, given, recipe)
        return _filled(out, self._rebuilt(given.form, arrays, given, op))

    def reduce(self, value: Any, root: int = 0, op: str = "sum") -> Any:
        """Return the sum of all tasks' values on the root, and None on the others.

        Parameters
        ----------
        value : array, number, dict or list
            The same kind, shapes and dtypes on all tasks.
        root : int, default 0
            The rank that gets it.
        op : {"sum", "mean", "max", "min", "prod"}
            As in `all_reduce`.
        """
        self._check_rank("reduce", "root", root)
        given = taken(value, "reduce")
        ufunc = _check_op("reduce", op, given)
        signature = Signature("reduce", given.text, (("root", root), ("op", op)))

        def recipe(_: Forms) -> Recipe:
            return self._recipes.reduce(given.form, root, ufunc)

        arrays, _ = self._collective(signature, given, recipe)
        if self.rank != root:
            return None
        return self._rebuilt(given.form, arrays, given, op)

    def reduce_scatter(self, values: Sequence[Any], op: str = "sum") -> Any:
        """Return the sum of what all tasks give for this task.

        Parameters
        ----------
        values : sequence
            One value for each task, by rank; the same kinds and shapes on all tasks.
        op : {"sum", "mean", "max", "min", "prod"}
            As in `all_reduce`.
        """
        given = taken(self._one_each("reduce_scatter", values), "reduce_scatter")
        ufunc = _check_op("reduce_scatter", op, given)
        signature = Signature("reduce_scatter", given.text, (("op", op),))
        forms = given.form["list"]

        def recipe(_: Forms) -> Recipe:
            return self._recipes.reduce_scatter(forms, ufunc)

        arrays, _ = self._collective(signature, given, recipe)
        mine = taken(values[self.rank], "reduce_scatter")
        return self._rebuilt(mine.form, arrays, mine, op)

    def broadcast(self, value: Any = None, root: int = 0) -> Any:
        """Return the root's value on all tasks.

        Parameters
        ----------
        value : array, number, dict or list
            On the root; other tasks may leave it out, or give one of the same form.
        root : int, default 0
            The rank whose value it is.
        """
        self._check_rank("broadcast", "root", root)
        given = self._maybe_taken(value, "broadcast", is_needed=self.rank == root)
        signature = Signature("broadcast", _like(given), (("root", root),))
        shown = Value([], _NONE, []) if self.rank != root else given

        def recipe(forms: Forms) -> Recipe:
            wanted = forms[root]
            others = {said(one) for one in forms if one not in (_NONE, wanted)}
            if others:
                raise MemberMismatch(
                    f"broadcast from rank {root}: its value is {said(wanted)}, and "
                    f"others gave {', '.join(sorted(others))}. Leave the value out on "
                    f"all tasks but the root."
                )
            return self._recipes.broadcast(wanted, root)

        arrays, forms = self._collective(signature, given, recipe, put=shown, own=True)
        return self._rebuilt(forms[root], arrays, given if given.arrays else None)

    def scatter(self, values: Sequence[Any] | None = None, root: int = 0) -> Any:
        """Return this task's one of the root's values.

        Parameters
        ----------
        values : sequence, optional
            One value for each task, by rank; on the root alone.
        root : int, default 0
            The rank whose values they are.
        """
        self._check_rank("scatter", "root", root)
        is_root = self.rank == root
        wanted = self._one_each("scatter", values) if is_root else None
        given = self._maybe_taken(wanted, "scatter", is_needed=is_root)
        signature = Signature("scatter", _like(given), (("root", root),))

        def recipe(forms: Forms) -> Recipe:
            return self._recipes.scatter(forms[root]["list"], root)

        shown = given if is_root else Value([], _NONE, [])
        arrays, forms = self._collective(signature, given, recipe, put=shown, own=True)
        return self._rebuilt(forms[root]["list"][self.rank], arrays, None)

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        """Return the list of all tasks' values on the root, and None on the others.

        Parameters
        ----------
        value : array, number, dict or list
            Each task may give one of another shape and dtype.
        root : int, default 0
            The rank that gets them.
        """
        self._check_rank("gather", "root", root)
        return self._gathered("gather", value, root)

    def all_gather(self, value: Any) -> list[Any]:
        """Return the list of all tasks' values, by rank, on all tasks.

        Parameters
        ----------
        value : array, number, dict or list
            Each task may give one of another shape and dtype.
        """
        found = self._gathered("all_gather", value, None)
        assert found is not None, "all tasks get them"
        return found

    def all_to_all(self, values: Sequence[Any]) -> list[Any]:
        """Return what each task has for this one: a list by rank.

        Parameters
        ----------
        values : sequence
            One value for each task, by rank, of any shapes and dtypes.
        """
        given = taken(self._one_each("all_to_all", values), "all_to_all")
        signature = Signature("all_to_all", given.text)

        def recipe(forms: Forms) -> Recipe:
            return self._recipes.all_to_all([form["list"] for form in forms])

        arrays, forms = self._collective(signature, given, recipe, own=True)
        return self._listed([form["list"][self.rank] for form in forms], arrays, given)

    def barrier(self) -> None:
        """Return when all tasks have called it."""
        self._collective(Signature("barrier"), Value([], _NONE, []), None)

    def split(self, color: Any, key: int | None = None) -> TaskGroup:
        """Return a group of those tasks that give the same color, as in MPI.

        Parameters
        ----------
        color : int
            Tasks with the same one are together.
        key : int, optional
            In the new group tasks are in the order of their keys; default: of ranks.
        """
        place = self.rank if key is None else key
        for name, value in (("color", color), ("key", place)):
            if not isinstance(value, int | np.integer) or not -(2**63) <= value < 2**63:
                raise InvalidArgumentError(
                    f"split() got {name}={value!r}; give a whole number."
                )
        mine = int(color), int(place)
        rows = self.all_gather(np.array(mine, np.int64))
        number = self._state.number
        chosen = [n for n, row in enumerate(rows) if int(row[0]) == mine[0]]
        chosen.sort(key=lambda n: (int(rows[n][1]), n))
        name = f"{self._state.members.id}/{self._state.generation}.{number}/{mine[0]}"
        return self._make(name, tuple(self.tasks[n] for n in chosen))

    # -- messages --------------------------------------------------------------

    def send(self, value: Any, to: int, tag: int = 0) -> None:
        """Send a value to one task, and return when it lies there.

        It waits for nobody's `receive`, however large the value is: two tasks may both
        send first. At most 1 GiB waits at a task to be received.

        Parameters
        ----------
        value : array, number, dict or list
            May be changed afterwards.
        to : int
            The rank that gets it.
        tag : int, default 0
            By which `receive` can tell it from others.
        """
        self._check_rank("send", "to", to)
        given = taken(value, "send")
        call = self._call(f"send({given.text}, to={to})")
        with self._state.in_call(call):
            self._messages.send(given, to, _tag(tag))

    def receive(self, source: int | None = None, tag: int | None = None) -> Any:
        """Return the next value from a task.

        Parameters
        ----------
        source : int, optional
            The rank that sends it; None takes the next one from anyone.
        tag : int, optional
            Only one with this tag.
        """
        return self.receive_message(source, tag).value

    def receive_message(
        self, source: int | None = None, tag: int | None = None
    ) -> GroupMessage:
        """Return the next value from a task, with its `source` and `tag`.

        Parameters
        ----------
        source, tag : int, optional
            As in `receive`.
        """
        if source is not None:
            self._check_rank("receive", "source", source)
        text = f"receive({'' if source is None else f'source={source}'})"
        call = self._call(text)
        call.receives, call.source, call.tag = True, source, tag
        with self._state.in_call(call):
            return self._messages.receive(source, tag)

    def isend(self, value: Any, to: int, tag: int = 0) -> Pending:
        """Begin to send, and return something to `wait()` for, or to await.

        Parameters
        ----------
        value, to, tag
            As in `send`; the value may be changed at once.
        """
        self._check_rank("isend", "to", to)
        self._state.check()
        return self._messages.begin_send(taken(value, "isend"), to, _tag(tag))

    def irecv(self, source: int | None = None, tag: int | None = None) -> Pending:
        """Return something whose `wait()` gives the next value from a task.

        Parameters
        ----------
        source, tag : int, optional
            As in `receive`.
        """
        if source is not None:
            self._check_rank("irecv", "source", source)
        return Pending(
            lambda: self.receive(source, tag),
            lambda: self._messages.has(source, tag),
        )

    def sendrecv(self, value: Any, to: int, source: int, tag: int = 0) -> Any:
        """Send to one task and return what another one sends.

        Parameters
        ----------
        value, to, source, tag
            As in `send` and `receive`.
        """
        self.send(value, to, tag)
        return self.receive(source, tag)

    def probe(
        self, source: int | None = None, tag: int | None = None
    ) -> tuple[int, int] | None:
        """Return source and tag of the message that `receive` would get now, or None.

        Parameters
        ----------
        source, tag : int, optional
            As in `receive`.
        """
        return self._messages.probe(source, tag)

    # -- what was counted ------------------------------------------------------

    @property
    def traffic(self) -> GroupTraffic:
        """Measured bytes of each link beside the formula; asks all tasks."""
        return traffic_of(self._state)

    @property
    def trace(self) -> Trace:
        """All messages of all tasks; asks them."""
        return trace_of(self._state)

    def close(self) -> None:
        """Let go of links and memory; else that happens with the last reference."""
        self._end()

    def __enter__(self) -> TaskGroup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(task.short for task in self.tasks)
        calls = self._state.number
        return f"<Group of {names}: rank {self.rank}, {calls} calls>"

    # -- how -------------------------------------------------------------------

    def _call(self, text: str) -> CallUnderWay:
        where = scope.caller(sys._getframe(1))
        return CallUnderWay(0, text, where, time.monotonic())

    def _collective(
        self,
        signature: Signature,
        given: Value,
        recipe: Callable[[Forms], Recipe] | None,
        *,
        put: Value | None = None,
        own: bool = False,
    ) -> tuple[list[Array], Forms]:
        """Make a call with all others; returns copies of results, and all forms.

        `put` is what is copied in; `own`: each task's value may have a form of its own.
        """
        state, wanted = self._state, given if put is None else put
        call = self._call(signature.text)
        with state.in_call(call):
            state.number += 1
            call.number = number = state.number
            links = state.links()
            forms = self._compared(links, call, signature, given.form, own)
            arrays = list[Array]()
            if recipe is not None:
                key = signature.strict
                if own:
                    key += "".join(packed(form).decode() for form in forms)
                arrays = self._carried_out(links, key, lambda: recipe(forms), wanted)
            state.done = number
            return arrays, forms

    def _compared(
        self,
        links: GroupLinks,
        call: CallUnderWay,
        signature: Signature,
        form: Form,
        own: bool,
    ) -> Forms:
        number = call.number
        strict = self._digest(signature.strict) ^ number
        loose = self._digest(signature.loose) ^ number if own else strict
        try:
            forms = links.compare(number, strict, loose, form)
        except CallsDiffer:
            raise self._mismatch(call) from None
        return [form] * self.size if forms is None else forms

    def _digest(self, text: str) -> int:
        found = self._digests.get(text)
        if found is None:
            if len(self._digests) > 1000:
                self._digests.clear()
            found = self._digests[text] = digest(text)
        return found

    def _mismatch(self, call: CallUnderWay) -> MemberMismatch:
        calls: dict[str, CallSeen] = self._watch.calls_of(
            self._watch.ask_all(), call.number
        )
        return MemberMismatch(differ(call.number, calls))

    def _carried_out(
        self, links: GroupLinks, key: str, recipe: Callable[[], Recipe], given: Value
    ) -> list[Array]:
        def put(bound: Bound) -> None:
            if bound.places:
                given.put_into(bound.places)

        bound = links.carry_out(key, recipe, put)
        self._state.formula.update(bound.recipe.traffic)
        return [one.copy() for one in bound.results]

    def _rebuilt(
        self, form: Form, arrays: Sequence[Array], given: Value | None, op: str = "sum"
    ) -> Any:
        shaped = _shaped(form, arrays)
        if op == "mean":
            shaped = [one / self.size for one in shaped]
            form = _as_float(form)
        return rebuilt(form, shaped, given.originals if given is not None else ())

    def _gathered(self, what: str, value: Any, root: int | None) -> list[Any] | None:
        given = taken(value, what)
        options = () if root is None else (("root", root),)

        def recipe(forms: Forms) -> Recipe:
            return self._recipes.gather(forms, root)

        signature = Signature(what, given.text, options)
        arrays, forms = self._collective(signature, given, recipe, own=True)
        if root not in (None, self.rank):
            return None
        return self._listed(forms, arrays, given)

    def _listed(self, forms: Forms, arrays: Sequence[Array], given: Value) -> list[Any]:
        """Return one value for each task; of the library of what was given here."""
        found, at = [], 0
        for form in forms:
            shaped = _shaped(form, arrays[at:])
            at += len(shaped)
            likes = (given.originals or [None])[:1] * len(shaped)
            found.append(rebuilt(form, shaped, likes))
        return found

    def _maybe_taken(self, value: Any, what: str, *, is_needed: bool) -> Value:
        if value is None and not is_needed:
            return Value([], _NONE, [])
        return taken(value, what)

    def _one_each(self, what: str, values: Any) -> list[Any]:
        try:
            n = len(values)
        except TypeError:
            n = -1
        if n != self.size or isinstance(values, dict):
            raise InvalidArgumentError(
                f"{what}() got {values!r:.60}; give a list with one value for each of "
                f"the {self.size} tasks, by rank."
            )
        return list(values)

    def _check_rank(self, what: str, name: str, rank: int) -> None:
        is_whole = isinstance(rank, int | np.integer) and not isinstance(rank, bool)
        if not is_whole or not 0 <= rank < self.size:
            known = ", ".join(f"{n} {task.short}" for n, task in enumerate(self.tasks))
            raise InvalidArgumentError(
                f"{what}() got {name}={rank!r}; the ranks of this group are {known}."
            )


# What users know as `kit.Group`; here that is the name of who takes part in a plan.
TaskGroup.__name__ = TaskGroup.__qualname__ = "Group"


def _topology(name: str | None) -> Topology:
    def suits(one: Topology) -> bool:
        return one.agrees and not one.needs_ps

    found = topologies.by_name(name or topologies.first(suits))
    if not suits(found):
        known = ", ".join(one.name for one in topologies.registered() if suits(one))
        raise InvalidArgumentError(
            f"algorithm={name!r} is no all-reduce of workers alone; there are {known}."
        )
    return found


def _check_op(what: str, op: str, given: Value) -> np.ufunc:
    """Return what combines two values; raises for dtypes that it does not suit."""
    if not isinstance(op, str) or op not in OPS:
        raise InvalidArgumentError(
            f"{what}() got op={op!r}; there are {', '.join(OPS)}."
        )
    for array in given.arrays:
        empty = np.empty(0, array.dtype)
        try:
            fits = OPS[op](empty, empty).dtype == array.dtype
        except TypeError:
            fits = False
        if op == "mean":
            fits = fits and array.dtype.kind in "iufc"
        if not fits or (op in ("sum", "mean", "prod") and array.dtype.kind == "b"):
            raise InvalidArgumentError(
                f"{what}() cannot make the {op} of {array.dtype}; convert it first, "
                f"for example x.astype(np.int64)."
            )
    return OPS[op]


def _check_out(out: Any, given: Value, op: str) -> None:
    """Refuse what cannot take the result, before anybody is asked."""
    if out is None:
        return
    is_array = isinstance(out, np.ndarray) and out.flags.writeable
    if not (is_array and len(given.arrays) == 1 and "a" in given.form):
        raise InvalidArgumentError(
            f"all_reduce() got out={out!r:.80}; give a numpy array that may be written "
            f"to, for the result of an array."
        )
    (array,) = given.arrays
    is_mean_of_whole = op == "mean" and array.dtype.kind in "iu"
    dtype = np.dtype(np.float64) if is_mean_of_whole else array.dtype
    if out.shape != array.shape or not np.can_cast(dtype, out.dtype, "same_kind"):
        raise InvalidArgumentError(
            f"all_reduce() got out={out.dtype}{list(out.shape)} for a result of "
            f"{dtype}{list(array.shape)}; give an array of this shape and dtype."
        )


def _like(given: Value) -> str:
    return "" if given.form == _NONE else given.text


def _tag(tag: int) -> int:
    if not isinstance(tag, int | np.integer) or not 0 <= tag < 2**31:
        raise InvalidArgumentError(f"tag={tag!r}; give a whole number from 0 on.")
    return int(tag)


def _shaped(form: Form, arrays: Sequence[Array]) -> list[Array]:
    pairs = zip(leaves(form), arrays, strict=False)
    return [array.reshape(shape) for (_, shape), array in pairs]


def _as_float(form: Form) -> Form:
    """Return the form of means: those of whole numbers are floats."""
    ((kind, rest),) = form.items()
    if kind == "a":
        number = "float" if rest[2] in ("int", "bool") else rest[2]
        return {"a": [rest[0], rest[1], number]}
    if kind == "dict":
        return {kind: {name: _as_float(one) for name, one in rest.items()}}
    return {kind: [_as_float(one) for one in rest]}


def _filled(out: Any, result: Any) -> Any:
    if out is None:
        return result
    out[...] = result
    return out
