"""`kit.group()`: collectives and messages of tasks, compared, counted and slowed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from kit.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    MemberMismatch,
)
from kit.groups import scope
from kit.groups.calls import CallSeen, Signature, differ, numbered, signature_of
from kit.groups.generation import Bound, CallsDiffer, GroupLinks, Recipe
from kit.groups.history import CallNote
from kit.groups.lending import Lent, maybe_lent
from kit.groups.messages import GroupMessage, Messages, Pending
from kit.groups.recipes import Recipes
from kit.groups.state import CallUnderWay, GroupState
from kit.groups.traffic import GroupTraffic, trace_of, traffic_of
from kit.groups.values import (
    Array,
    Form,
    Value,
    check_room,
    fill,
    leaves,
    packed,
    rebuilt,
    room_of,
    said,
    shaped_as,
    tag_of,
    taken,
    topology_of,
    ufunc_of,
)
from kit.groups.watch import CallWatch
from kit.handles import handle
from kit.task import Task
from kit.trace.trace import Trace
from kit.training.client.run import view

_NONE: Form = {"none": []}
# What mpi4py calls otherwise.
_ELSEWHERE = {
    **{"allreduce": "all_reduce", "allgather": "all_gather", "bcast": "broadcast"},
    **{"alltoall": "all_to_all", "recv": "receive", "iprobe": "probe"},
    **{"get_rank": "rank", "get_size": "size", "get_world_size": "size"},
}
Forms = list[Form]


@handle
class TaskGroup:
    """Some tasks that exchange values; made by `kit.group`.

    Every task makes the same calls in the same order. Each call is compared before a
    byte moves, and a call that cannot be completed ends on all tasks with an error that
    says who is where. The group can be used again after that, unless a task is lost.

    Values are arrays of numpy, cupy or torch, numbers, and dicts or lists of them;
    results are new values of the same kind. Sums are added in the order of a training:
    of n equal pieces, piece c as the tasks c, c+1, ..., c-1. The algorithms "tree" and
    "recursive-doubling" have orders, and so last bits, of their own.

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
            What is made of them. The mean is the sum divided by the size; whole numbers
            are added as float64 for it.
        out : numpy.ndarray or list of them, optional
            Where the result of an array, or of a list of them, is put; it is returned
            then, and nothing is made anew. May be the value itself. A call that fails
            on the way may leave parts of the result there. All collectives have it.
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
        topology = topology_of(algorithm)
        taken_value = taken(value, "all_reduce", op)
        ufunc = ufunc_of("all_reduce", op, taken_value, self.size)
        room = room_of(out, "all_reduce")
        check_room(room, leaves(taken_value.form), "all_reduce")
        options = [("op", op)] if op != "sum" else []
        options += [("algorithm", topology.name)] if algorithm else []
        signature = signature_of("all_reduce", taken_value.text, tuple(options))

        def recipe(_: Forms) -> Recipe:
            return self._recipes.all_reduce(taken_value.form, topology, ufunc)

        lent = None
        if len(taken_value.arrays) == 1:
            lent = maybe_lent(taken_value.arrays[0], room[0] if room else None)
        arrays, _ = self._collective(
            signature, taken_value, recipe, room=room, op=op, lent=lent
        )
        return out if room else self._rebuilt(taken_value.form, arrays, taken_value, op)

    def reduce(
        self, value: Any, root: int = 0, op: str = "sum", *, out: Any = None
    ) -> Any:
        """Return the sum of all tasks' values on the root, and None on the others.

        Parameters
        ----------
        value : array, number, dict or list
            The same kind, shapes and dtypes on all tasks.
        root : int, default 0
            The rank that gets it.
        op : {"sum", "mean", "max", "min", "prod"}
            As in `all_reduce`.
        out : numpy.ndarray or list of them, optional
            As in `all_reduce`; on the root alone.
        """
        root = self._rank("reduce", "root", root)
        taken_value = taken(value, "reduce", op)
        ufunc = ufunc_of("reduce", op, taken_value, self.size)
        signature = signature_of(
            "reduce", taken_value.text, (("root", root), ("op", op))
        )
        room = room_of(out if self.rank == root else None, "reduce")
        check_room(room, leaves(taken_value.form), "reduce")

        def recipe(_: Forms) -> Recipe:
            return self._recipes.reduce(taken_value.form, root, ufunc)

        arrays, _ = self._collective(signature, taken_value, recipe, room=room, op=op)
        if self.rank != root:
            return None
        return out if room else self._rebuilt(taken_value.form, arrays, taken_value, op)

    def reduce_scatter(
        self, values: Sequence[Any], op: str = "sum", *, out: Any = None
    ) -> Any:
        """Return the sum of what all tasks give for this task.

        Parameters
        ----------
        values : sequence
            One value for each task, by rank; the same kinds and shapes on all tasks.
        op : {"sum", "mean", "max", "min", "prod"}
            As in `all_reduce`.
        out : numpy.ndarray or list of them, optional
            As in `all_reduce`.
        """
        each = self._one_each("reduce_scatter", values)
        taken_value = taken(each, "reduce_scatter", op)
        ufunc = ufunc_of("reduce_scatter", op, taken_value, self.size)
        signature = signature_of("reduce_scatter", taken_value.text, (("op", op),))
        forms = taken_value.form["list"]

        def recipe(_: Forms) -> Recipe:
            return self._recipes.reduce_scatter(forms, ufunc)

        mine = taken(each[self.rank], "reduce_scatter", op)
        room = room_of(out, "reduce_scatter")
        check_room(room, leaves(mine.form), "reduce_scatter")
        arrays, _ = self._collective(signature, taken_value, recipe, room=room, op=op)
        return out if room else self._rebuilt(mine.form, arrays, mine, op)

    def broadcast(self, value: Any = None, root: int = 0, *, out: Any = None) -> Any:
        """Return the root's value on all tasks.

        Parameters
        ----------
        value : array, number, dict or list
            On the root; other tasks may leave it out, or give one of the same form.
        root : int, default 0
            The rank whose value it is.
        out : numpy.ndarray or list of them, optional
            As in `all_reduce`.
        """
        root = self._rank("broadcast", "root", root)
        taken_value = self._maybe_taken(value, "broadcast", is_needed=self.rank == root)
        signature = signature_of("broadcast", _like(taken_value), (("root", root),))
        shown = Value([], _NONE, []) if self.rank != root else taken_value

        def recipe(forms: Forms) -> Recipe:
            wanted = forms[root]
            others = {said(form) for form in forms if form not in (_NONE, wanted)}
            if others:
                raise MemberMismatch(
                    f"broadcast from rank {root}: its value is {said(wanted)}, and "
                    f"others gave {', '.join(sorted(others))}. Leave the value out on "
                    f"all tasks but the root."
                )
            return self._recipes.broadcast(wanted, root)

        room = room_of(out, "broadcast")
        arrays, forms = self._collective(
            signature, taken_value, recipe, put=shown, own=True, room=room
        )
        if room:
            return out
        return self._rebuilt(
            forms[root], arrays, taken_value if taken_value.arrays else None
        )

    def scatter(
        self, values: Sequence[Any] | None = None, root: int = 0, *, out: Any = None
    ) -> Any:
        """Return this task's one of the root's values.

        Parameters
        ----------
        values : sequence, optional
            One value for each task, by rank; on the root alone.
        root : int, default 0
            The rank whose values they are.
        out : numpy.ndarray or list of them, optional
            As in `all_reduce`.
        """
        root = self._rank("scatter", "root", root)
        is_root = self.rank == root
        wanted = self._one_each("scatter", values) if is_root else None
        taken_value = self._maybe_taken(wanted, "scatter", is_needed=is_root)
        signature = signature_of("scatter", _like(taken_value), (("root", root),))

        def recipe(forms: Forms) -> Recipe:
            return self._recipes.scatter(forms[root]["list"], root)

        shown = taken_value if is_root else Value([], _NONE, [])
        room = room_of(out, "scatter")
        arrays, forms = self._collective(
            signature, taken_value, recipe, put=shown, own=True, room=room
        )
        form = forms[root]["list"][self.rank]
        return out if room else self._rebuilt(form, arrays, None)

    def gather(self, value: Any, root: int = 0, *, out: Any = None) -> list[Any] | None:
        """Return the list of all tasks' values on the root, and None on the others.

        Parameters
        ----------
        value : array, number, dict or list
            Each task may give one of another shape and dtype.
        root : int, default 0
            The rank that gets them.
        out : numpy.ndarray or list of them, optional
            As in `all_reduce`; on the root alone.
        """
        root = self._rank("gather", "root", root)
        return self._gathered("gather", value, root, out)

    def all_gather(self, value: Any, *, out: Any = None) -> list[Any]:
        """Return the list of all tasks' values, by rank, on all tasks.

        Parameters
        ----------
        value : array, number, dict or list
            Each task may give one of another shape and dtype.
        out : numpy.ndarray or list of them, optional
            As in `all_reduce`.
        """
        gathered = self._gathered("all_gather", value, None, out)
        assert gathered is not None, "all tasks get them"
        return gathered

    def all_to_all(self, values: Sequence[Any], *, out: Any = None) -> list[Any]:
        """Return what each task has for this one: a list by rank.

        Parameters
        ----------
        values : sequence
            One value for each task, by rank, of any shapes and dtypes.
        out : numpy.ndarray or list of them, optional
            As in `all_reduce`.
        """
        taken_value = taken(self._one_each("all_to_all", values), "all_to_all")
        signature = signature_of("all_to_all", taken_value.text)

        def recipe(forms: Forms) -> Recipe:
            return self._recipes.all_to_all([form["list"] for form in forms])

        room = room_of(out, "all_to_all")
        arrays, forms = self._collective(
            signature, taken_value, recipe, own=True, room=room
        )
        if room:
            return list(out)
        return self._listed(
            [form["list"][self.rank] for form in forms], arrays, taken_value
        )

    def barrier(self) -> None:
        """Return when all tasks have called it."""
        self._collective(signature_of("barrier"), Value([], _NONE, []), None)

    def split(self, color: Any, key: int | None = None) -> TaskGroup:
        """Return a group of those tasks that give the same color, as in MPI.

        Parameters
        ----------
        color : int
            Tasks with the same color form a group.
        key : int, optional
            In the new group tasks are in the order of their keys; default: of ranks.
        """
        order = self.rank if key is None else key
        for name, value in (("color", color), ("key", order)):
            if not isinstance(value, int | np.integer) or not -(2**63) <= value < 2**63:
                raise InvalidArgumentError(
                    f"split() got {name}={value!r}; give a whole number."
                )
        mine = int(color), int(order)
        rows = self.all_gather(np.array(mine, np.int64))
        number = self._state.number
        chosen = [n for n, row in enumerate(rows) if int(row[0]) == mine[0]]
        chosen.sort(key=lambda n: (int(rows[n][1]), n))
        name = f"{self._state.members.id}/{self._state.generation}.{number}/{mine[0]}"
        return self._make(name, tuple(self.tasks[n] for n in chosen))

    # -- messages --------------------------------------------------------------

    def send(self, value: Any, to: int, tag: int = 0) -> None:
        """Send a value to one task, and return when it has arrived there.

        It does not wait for `receive`, however large the value is: two tasks may both
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
        to = self._rank("send", "to", to)
        taken_value = taken(value, "send")
        call = self._call(f"send({taken_value.text}, to={to})")
        with self._state.in_call(call):
            self._messages.send(taken_value, to, tag_of(tag))

    def receive(self, source: int | None = None, tag: int | None = None) -> Any:
        """Return the next value from a task.

        Parameters
        ----------
        source : int, optional
            The rank that sends it; None takes the next one from any task.
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
        source, tag = self._wanted("receive", source, tag)
        text = f"receive({'' if source is None else f'source={source}'})"
        call = self._call(text)
        call.receives, call.source, call.tag = True, source, tag
        with self._state.in_call(call):
            return self._messages.receive(call)

    def isend(self, value: Any, to: int, tag: int = 0) -> Pending:
        """Begin to send, and return something to `wait()` for, or to await.

        Parameters
        ----------
        value, to, tag
            As in `send`; the value may be changed at once.
        """
        to = self._rank("isend", "to", to)
        self._state.check()
        self._state.shows()
        return self._messages.begin_send(taken(value, "isend"), to, tag_of(tag))

    def irecv(self, source: int | None = None, tag: int | None = None) -> Pending:
        """Return something whose `wait()` gives the next value from a task.

        Parameters
        ----------
        source, tag : int, optional
            As in `receive`.
        """
        source, tag = self._wanted("irecv", source, tag)
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
        return self._messages.probe(*self._wanted("probe", source, tag))

    # -- what was counted ------------------------------------------------------

    @property
    def traffic(self) -> GroupTraffic:
        """Measured bytes of each link beside the formula; asks all tasks."""
        return traffic_of(self._state)

    @property
    def trace(self) -> Trace:
        """All messages of all tasks; asks them."""
        return trace_of(self._state)

    def board(self) -> Any:
        """Show all that this group has done so far below this cell, once.

        It is the board that a cell has by itself if it makes calls of a group; live
        while the cell runs. In a program of its own it is returned: its `save` writes
        a page. For a function of `cluster.call`, return `group.trace`, and give that to
        `TrafficBoard` in the notebook.
        """
        if scope.now() is not None:
            self._state.shows()
            return None
        show = view("board")
        if show is None:
            raise FailedPreconditionError(
                "a board is drawn with bokeh, which is not installed: pip install "
                "bokeh. print(group.traffic) shows the bytes without it."
            )
        return show(self.trace)

    def close(self) -> None:
        """Let go of links and memory, which the end of the last reference does too."""
        self._end()

    def __enter__(self) -> TaskGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # to a type checker, any name would seem to be there

        def __getattr__(self, name: str) -> Any:
            """Say what to write instead of a name of mpi4py, or a misspelt one."""
            names = [own for own in (*dir(self), "rank", "size") if own[0] != "_"]
            like = get_close_matches(name.lower(), names, 1)
            instead = _ELSEWHERE.get(name.lower(), "".join(like))
            if not instead or name[0] == "_":
                raise AttributeError(f"a group has no attribute {name!r}.")
            raise AttributeError(f"a group has no {name!r}; write .{instead}")

    def __repr__(self) -> str:
        names = ", ".join(task.short for task in self.tasks)
        n = self._state.number
        return f"<Group of {names}: rank {self.rank}, {n} call{'s' * (n != 1)}>"

    # -- how -------------------------------------------------------------------

    def _end_calls(self, how: str) -> None:
        """End what is under way in another thread, on all tasks."""
        me, state = self.tasks[self.rank], self._state
        error = AbortedError(f"{me.short} {how}. The group can be used again.")
        state.fail(state.generation, error, tell=True)

    def _call(self, text: str) -> CallUnderWay:
        where = scope.caller(sys._getframe(1))
        now = time.monotonic()
        return CallUnderWay(0, self._state.generation, text, where, now)

    def _collective(
        self,
        signature: Signature,
        value: Value,
        recipe: Callable[[Forms], Recipe] | None,
        *,
        put: Value | None = None,
        own: bool = False,
        room: Sequence[Array] | None = None,
        op: str = "sum",
        lent: Lent | None = None,
    ) -> tuple[list[Array], Forms]:
        """Make a call with all others; returns copies of results, and all forms.

        `put` is what is copied in; `own`: each task's value may have a form of its own.
        With `room`, results go there instead, as those of `op`. What is `lent` is
        worked on where it lies, if that can be.
        """
        state, wanted = self._state, value if put is None else put
        call = self._call(signature.text)
        with state.in_call(call):
            state.number += 1
            call.number = number = state.number
            call.generation = state.generation
            links = state.links()
            forms = self._compared(links, call, signature, value.form, own)
            met, waited = time.monotonic_ns(), 0
            at = state.generation, number, number, signature.text, call.where
            note = CallNote(*at, "", 0)
            results, is_lent = list[Array](), False
            if recipe is not None:
                key = signature.strict
                if own:
                    key += "".join(packed(form).decode() for form in forms)
                options = signature.options
                # Now: a result may be put where the input is.
                state.history.keep_input(note, signature.what, options, value)
                bound = self._carried_out(
                    links, key, lambda: recipe(forms), wanted, lent
                )
                results, waited = bound.results, bound.waited
                is_lent = bound.is_lent
                if is_lent and lent is not None:
                    results = [lent.result]
                note.topology = bound.recipe.topology
                note.formula = bound.recipe.n_bytes
            arrays = list[Array]()
            if room is None:
                arrays = [array if is_lent else array.copy() for array in results]
            elif results or room:
                fill(room, results, self._divisor(op), signature.what)
            state.completed(call, note, met, waited)
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
        strict, loose = signature.digests
        loose = loose if own else strict
        try:
            forms = links.compare(number, strict ^ number, loose ^ number, form)
        except CallsDiffer:
            raise self._mismatch(call) from None
        return [form] * self.size if forms is None else forms

    def _mismatch(self, call: CallUnderWay) -> MemberMismatch:
        calls: dict[str, CallSeen] = self._watch.calls_of(
            self._watch.ask_all(), call.number
        )
        return MemberMismatch(differ(numbered(call.number, call.generation), calls))

    def _carried_out(
        self,
        links: GroupLinks,
        key: str,
        recipe: Callable[[], Recipe],
        value: Value,
        lent: Lent | None,
    ) -> Bound:
        def put(bound: Bound) -> None:
            if bound.places:
                value.put_into(bound.places)

        bound = links.carry_out(key, recipe, put, lent)
        self._state.formula.update(bound.recipe.traffic)
        return bound

    def _divisor(self, op: str) -> int:
        return self.size if op == "mean" else 1

    def _rebuilt(
        self, form: Form, arrays: Sequence[Array], value: Value | None, op: str = "sum"
    ) -> Any:
        shaped = shaped_as(form, arrays)
        if op == "mean":
            shaped = [np.asarray(array / self.size) for array in shaped]
        return rebuilt(form, shaped, value.originals if value is not None else ())

    def _gathered(
        self, what: str, value: Any, root: int | None, out: Any
    ) -> list[Any] | None:
        taken_value = taken(value, what)
        has_result = root in (None, self.rank)
        room = room_of(out if has_result else None, what)
        options = () if root is None else (("root", root),)

        def recipe(forms: Forms) -> Recipe:
            return self._recipes.gather(forms, root)

        signature = signature_of(what, taken_value.text, options)
        arrays, forms = self._collective(
            signature, taken_value, recipe, own=True, room=room
        )
        if not has_result:
            return None
        return list(out) if room else self._listed(forms, arrays, taken_value)

    def _listed(self, forms: Forms, arrays: Sequence[Array], value: Value) -> list[Any]:
        """Return one value for each task; of the library of what was given here."""
        results, at = [], 0
        for form in forms:
            shaped = shaped_as(form, arrays[at:])
            at += len(shaped)
            likes = (value.originals or [None])[:1] * len(shaped)
            results.append(rebuilt(form, shaped, likes))
        return results

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

    def _wanted(
        self, what: str, source: int | None, tag: int | None
    ) -> tuple[int | None, int | None]:
        """Return of whom and which message is wanted; None is any."""
        if source is not None:
            source = self._rank(what, "source", source)
        return source, None if tag is None else tag_of(tag)

    def _rank(self, what: str, name: str, rank: Any) -> int:
        """Return a rank as Python's own number; refuse what is none."""
        is_whole = isinstance(rank, int | np.integer) and not isinstance(rank, bool)
        if not is_whole or not 0 <= rank < self.size:
            ranks = ", ".join(f"{n} {task.short}" for n, task in enumerate(self.tasks))
            raise InvalidArgumentError(
                f"{what}() got {name}={rank!r}; the ranks of this group are {ranks}."
            )
        return int(rank)


# What users know as `kit.Group`; here that is the name of who takes part in a plan.
TaskGroup.__name__ = TaskGroup.__qualname__ = "Group"


def _like(value: Value) -> str:
    return "" if value.form == _NONE else value.text
