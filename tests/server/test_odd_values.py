"""Nonsense from a holder of the key is refused, and nothing else happens.

Every question that a task answers is asked with one value replaced, while a training
and a session are under way. What must be refused is decided by the type that the value
has in JSON; the tables of the package are asked for the names of the questions alone.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import (
    InvalidArgumentError,
    KitError,
    NotFoundError,
    UnknownError,
    from_plain,
)
from kit.graph.node import Node
from kit.graph.node import to_plain as nodes_to_plain
from kit.session.client.session import Session
from kit.session.master.partition import Segment
from kit.session.transport.message import Act, Message, ask, recv, send
from kit.session.transport.service import Service
from kit.testing.cluster import CLIENT, LocalCluster, local_cluster
from kit.testing.task_process import until
from kit.training.core.coordinator import log_of
from kit.training.core.log import COMMANDS
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.rpc import Caller
from tests.session.scene import PS, W0, works
from tests.training.toy import Params, begin, fit, replayed, same_bits

pytestmark = [pytest.mark.slow, pytest.mark.lasting("thread", "descriptor")]

Plain = dict[str, Any]
MANY = 1_000_000
NOBODYS = "ab" * 16  # a training that is not there: good questions about it do nothing
NAN, INF = float("nan"), float("inf")
ODD: list[Any] = [
    *(None, True, -1, 2**63, 2**200, 1.5, -0.5, NAN, INF, -INF),
    *("", "300", "x" * 100_000, "\0", [], [[]], [None], [-1], {}, {"a": {"b": [1]}}),
]
ADAM = kit.Adam(0.01)


@dataclass
class Scene:
    """A cluster, what goes on in it, and a good question of each kind."""

    cluster: LocalCluster
    run: kit.Run
    session: Session
    asked: dict[str, Plain]

    def check(self) -> None:
        """The task, its training and its session are as well as before."""
        step = self.run.step
        until(lambda: self.run.step > step or self.run.done)
        assert self.run.step > step, self.run.error
        assert works(self.session, W0, PS)


def paced(params: Params, batch: Any) -> Any:
    """A step that leaves the machine to the test for a while."""
    threading.Event().wait(0.005)
    return fit(params, batch)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """At the end of all tests the training has the bits of an undisturbed one."""
    folder = Path(tmp_path_factory.mktemp("saved"))
    with local_cluster(ps=1, worker=2) as cluster:
        saves = kit.Checkpoints(str(folder), every_steps=0, every_s=0)
        options = {"optimizer": ADAM, "topology": "ps", "steps": MANY}
        run = begin(cluster, paced, checkpoint=saves, **options)
        until(lambda: run.step > 0, 30)
        with Session(cluster.servers[1]) as session:
            yield Scene(cluster, run, session, asked_of_a_run(run))
        run.stop()
        run.wait(30)
        assert run.step > 0
        assert same_bits(run.params, replayed(run.step, 2, ADAM))


def asked_of_a_run(run: kit.Run) -> dict[str, Plain]:
    mine, member = {"run": run.job.run}, {"run": run.job.run, "member": 1}
    patience, key = {"patience_s": 0.0}, {"key": [3, 0]}
    error = {"type": "PeerLost", "message": "gone", "task": "ps:0", "step": 3}
    return {
        "run.join": {"member": 1, "terms": {"steps": "1"}},
        "run.begun": mine,
        "run.arrive": {**member, "number": 3, "step": 3, **patience},
        "run.prepared": {**member, "number": 3, "refusal": "no room", **patience},
        "run.beat": member,
        "run.fail": {"run": NOBODYS, "error": error, "member": 1, "lost": 1},
        "run.leave": member,
        "run.copied": {**member, "step": 3},
        "run.kept": member,
        "run.where": {**member, **key},
        "run.collect": {**member, **key, "offset": 0},
        "run.wrote": {**member, **key, "wrong": "the disk is full"},
        "run.begin": {"job": run.job.to_plain()},
        "run.command": {**mine, "what": "look", "values": {}},
        "run.poll": {**mine, "cursors": [0, 0, 0, 0]},
        "run.params": mine,
        "run.recorded": {**mine, "at": 10**6, "since": 0},
        "run.job": mine,
        "task.look": {},
        "group.look": {"group": "nobody's"},
        "group.end": {"group": "nobody's", "generation": 0, "error": error},
        "group.put": {
            **{"group": "nobody's", "generation": 0, "source": 0, "tag": 0, "hold": 0},
            "sent": 0,
            "form": '{"a": ["float32", [0], ""]}',
        },
        "group.account": {"group": "nobody's", "details": False, "most": 3},
        "group.used": {"scope": "nobody's"},
        "group.inputs": {"group": "nobody's"},
        **asked_of_an_elastic_run(run),
    }


def asked_of_an_elastic_run(run: kit.Run) -> dict[str, Plain]:
    about = {"origin": NOBODYS}
    log = log_of(run.job, None).to_plain()
    state: Plain = {"moment": [3, 0, 1], "requests": log}
    copied = {**state, "member": 1, "writers": [0, 1], "ranges": [[0, 8]]}
    return {
        "elastic.look": about,
        "elastic.lose": {**about, "number": 0, "reason": "gone"},
        "elastic.claim": {**about, "number": 1, "after": 0},
        "elastic.join": {**about, "process": "worker:1"},
        "elastic.host": {**about, "number": 1, "places": ["ps:0"]},
        "elastic.begin": {
            **{**about, **state, "holders": {"0": ["ps:0", [3, 0, 1]]}},
            "job": run.job.to_plain(),
        },
        "elastic.keep": {
            **{**about, "run": NOBODYS},
            "about": {**copied, "sizes": [8, 0, 0]},
        },
        "elastic.note": {**about, "run": NOBODYS, "requests": log},
        "elastic.fetch": {**about, "moment": [3, 0, 1], "member": 1},
    }


COMMANDED: dict[str, Plain] = {
    "configure": {"at": MANY, "topology": "ps", "link": "1gbit", "synchronous": True},
    "pause": {"steps": MANY},
    "place": {"workers": 1, "shares": {"worker:1": 2.0}},
    "leave": {"task": "worker:1"},
    "resume": {},
    "stop": {},
    "save": {"ticket": "mine"},
    "look": {},
}
NODE = Node("a", "NoOp", (), (), {}, "", (), "", "")
ASKED_OF_A_SESSION: dict[str, Plain] = {
    "create": {"options": {"soft": False, "filters": ["/job:ps"], "isolated": False}},
    "extend": {"session": 1, "version": 0, "nodes": nodes_to_plain([NODE])[0]},
    "prepare": {
        **{"session": 1, "feeds": [["a", 0]], "fetches": [["a", 0]]},
        **{"targets": ["a"], "done": ["a"], "deadline_s": 0.1},
    },
    "close": {"session": 1},
    "devices": {"deadline_s": 0.1, "session": 1},
    "waits": {"session": 1},
    "wait_of": {"step": 1},
    "cluster_reset": {"names": ["nobody's"], "deadline_s": 0.1},
    "status": {},
    "register": {
        **{"session": 1, "incarnation": 1, "isolated": False},
        "segment": Segment([NODE]).to_plain()[0],
    },
    "end": {"session": 1},
    "reset": {"names": ["nobody's"]},
}
# Where None means something, or a value may be left out. Both by the last name.
MAY_BE_NONE = {"refusal", "lost", "checkpoints", "generation"}
ALSO_NONE: set[tuple[str, ...]] = {("run.fail", "member"), ("run.recorded", "at")}
ALSO_NONE |= {(op, "error", "step") for op in ("run.fail", "group.end")}
ALSO_NONE |= {(op, "error", "task") for op in ("run.fail", "group.end")}
MAY_BE_MISSING = {"at", "topology", "link", "synchronous", "steps", "values", "lost"}
MAY_BE_MISSING |= {"workers", "shares"}
Place = tuple[str | int, ...]


def places(good: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield each place of a question, and what is there."""
    if path:
        yield path, good
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(good, dict):
        inner = good.items()
    elif isinstance(good, list):
        inner = enumerate(good)
    for name, value in inner:
        yield from places(value, (*path, name))


def changed(good: Plain, path: Place, value: Any) -> Plain:
    question = copy.deepcopy(good)
    inner: Any = question
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return question


def is_wrong(value: Any, good: Any) -> bool:
    """Whether a value is of another type than the good one, or out of all ranges."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not 0 <= value < 2**63:
        return True
    if type(good) is float:
        return not number
    return type(value) is not type(good)


def odd_ones(questions: dict[str, Plain]) -> Iterator[tuple[str, Place, Plain, bool]]:
    """Yield each question with each odd value in each place, and if that is wrong."""
    for op, good in questions.items():
        for path, was in places(good):
            for value in ODD:
                may_be = path[-1] in MAY_BE_NONE or (op, *path) in ALSO_NONE
                wrong = is_wrong(value, was) and not (value is None and may_be)
                yield op, path, changed(good, path, value), wrong


def refused(answer: KitError | None, about: object) -> None:
    # What names a training or a task that is not here is refused for that.
    is_refusal = isinstance(answer, InvalidArgumentError | NotFoundError)
    assert is_refusal, (about, answer)


class Asking:
    """Questions over one link, which must stay good."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def __call__(self, op: str, question: Plain) -> KitError | None:
        answer = None
        try:
            self.caller.call(op, 20.0, question)
        except KitError as error:
            answer = error
        assert type(answer) is not UnknownError, (op, question, answer)
        assert not self.caller.is_closed, (op, question, answer)
        return answer


@pytest.fixture
def leader(scene: Scene) -> Iterator[Asking]:
    with closing(scene.cluster.dial(scene.cluster.tasks[1], "")) as caller:
        yield Asking(caller)


@pytest.fixture
def link(scene: Scene) -> Iterator[Link]:
    with session_link(scene) as result:
        yield result


def session_link(scene: Scene) -> Link:
    cluster = scene.cluster
    directory = cluster.servers[0].directory
    return directory.dial(cluster.tasks[1], CLIENT, Role.SESSION)


def ask_session(link: Link, op: str, question: Plain) -> KitError | None:
    return error_of(ask(link, {**question, "op": op}, 20.0), (op, question))


def error_of(answer: Message, about: object) -> KitError | None:
    if answer.act == Act.DONE:
        return None
    error = from_plain(answer.meta["error"])
    assert type(error) is not UnknownError, (about, error)
    return error


def test_each_question_and_command_has_a_good_one_here(scene: Scene) -> None:
    server = scene.cluster.servers[1]

    assert scene.asked.keys() == server._handlers(CLIENT).keys()
    assert ASKED_OF_A_SESSION.keys() == Service(server.graphs.master).questions.keys()
    assert COMMANDED.keys() == COMMANDS.keys()


def test_questions_about_a_training_with_one_odd_value(
    scene: Scene, leader: Asking
) -> None:
    for op, path, question, is_bad in odd_ones(scene.asked):
        answer = leader(op, question)
        if is_bad:
            refused(answer, (op, path, question))
    scene.check()


def test_commands_with_one_odd_value(scene: Scene, leader: Asking) -> None:
    about = scene.asked["run.command"]
    for what, path, values, is_bad in odd_ones(COMMANDED):
        answer = leader("run.command", {**about, "what": what, "values": values})
        if is_bad:
            refused(answer, (what, path, values))
    for what, good in COMMANDED.items():
        others: list[Any] = [{**good, "moon": 1}, [], "at", None, 3]
        for odd in others:
            question = {**about, "what": what, "values": odd}
            refused(leader("run.command", question), (what, odd))
    scene.run.resume()
    scene.check()


def test_questions_with_a_value_too_many_or_too_few(
    scene: Scene, leader: Asking, link: Link
) -> None:
    for op, good in scene.asked.items():
        refused(leader(op, {**good, "moon": 1}), op)
        for name in good.keys() - MAY_BE_MISSING:
            if (op, name) != ("run.fail", "member"):
                refused(leader(op, without(good, name)), (op, name))
    for op, good in ASKED_OF_A_SESSION.items():
        refused(ask_session(link, op, {**good, "moon": 1}), op)
        for name in good:
            refused(ask_session(link, op, without(good, name)), (op, name))
    scene.check()


def without(good: Plain, name: str) -> Plain:
    return {key: value for key, value in good.items() if key != name}


def test_questions_of_a_session_with_one_odd_value(scene: Scene, link: Link) -> None:
    for op, path, question, is_bad in odd_ones(ASKED_OF_A_SESSION):
        if op == "cluster_reset" and not is_bad:
            continue  # it would do what it is for: end all sessions
        answer = ask_session(link, op, question)
        # What is in a graph is read by the ops, after the session is looked up.
        if is_bad and not {"nodes", "segment"} & set(path[:-1]):
            refused(answer, (op, path, question))
    scene.check()


@pytest.mark.parametrize("act", [Act.RUN, Act.SEGMENT])
def test_runs_of_a_session_with_odd_values(scene: Scene, act: Act) -> None:
    good = {"late": {"0": ["a" * 32, "token", "x:0", "float32", [3]]}, "traced": True}
    for path, was in places(good):
        for value in ODD:
            if act == Act.RUN and path == ("late", "0", 4) and value is None:
                continue  # a shape that is not known
            with session_link(scene) as link:
                meta = changed(good, path, value)
                send(link, act, deadline_s=20.0, number=7, step=9, meta=meta)
                answer = error_of(recv(link, 20.0), (path, value))
            assert answer is not None
            if act == Act.SEGMENT and is_wrong(value, was) and value is not None:
                refused(answer, (path, value))
    scene.check()


def test_tensors_with_odd_values_end_no_run_of_others(scene: Scene, link: Link) -> None:
    for value in ODD:
        for name in ("sent", "came", "moon"):
            meta = {name: value}
            send(link, Act.TENSOR, deadline_s=20.0, number=1, step=3, meta=meta)
    assert ask_session(link, "status", {}) is None
    scene.check()


@pytest.mark.parametrize(
    "values",
    [
        {"number": 7},
        {"number": 2**40},
        {"step": MANY + 1},
        {"member": 2},
        {"member": 0},
        {"member": 99},
    ],
    ids=str,
)
def test_member_that_comes_where_it_cannot_be_is_refused(
    scene: Scene, values: Plain
) -> None:
    """The link is that of member 1, which is at boundary 2: this is not its word."""
    cluster, me = scene.cluster, scene.run.job.tasks[1]
    good = {"run": scene.run.job.run, "member": 1, "number": 1, "step": 0}
    question = {**good, "patience_s": 0.0, **values}
    directory = cluster.servers[0].directory
    with closing(Caller(directory.dial(cluster.tasks[1], me, Role.OBSERVER))) as caller:
        asking = Asking(caller)
        refused(asking("run.arrive", question), values)
        del question["step"]
        refused(asking("run.prepared", {**question, "refusal": "no"}), values)
    scene.check()


@pytest.mark.parametrize("op", ["run.arrive", "run.beat", "run.leave", "run.where"])
def test_a_task_speaks_for_itself_alone(scene: Scene, leader: Asking, op: str) -> None:
    answer = leader(op, scene.asked[op])

    refused(answer, op)
    assert f"{CLIENT.short} is not member 1" in str(answer)
    scene.check()


@pytest.mark.parametrize("who", ["member", "lost"])
def test_failure_of_a_member_that_is_not_there_is_refused(
    scene: Scene, leader: Asking, who: str
) -> None:
    mine = {"run": scene.run.job.run, who: 3}

    answer = leader("run.fail", {**scene.asked["run.fail"], **mine})

    refused(answer, who)
    assert "there is no member 3" in str(answer)
    scene.check()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(data=st.data())
def test_questions_with_any_values(scene: Scene, data: st.DataObject) -> None:
    with_values = [(op, good) for op, good in scene.asked.items() if [*places(good)]]
    op, good = data.draw(st.sampled_from(with_values))
    path, _ = data.draw(st.sampled_from([*places(good)]))
    values = changed(good, path, data.draw(JSON))
    harmless = ASKED_OF_A_SESSION.keys() - {"cluster_reset"}
    meant = data.draw(st.sampled_from(sorted(harmless)))
    asked = ASKED_OF_A_SESSION[meant]
    there, _ = data.draw(st.sampled_from([*places(asked), (("moon",), 0)]))
    others = changed(asked, there, data.draw(JSON))

    with closing(scene.cluster.dial(scene.cluster.tasks[1], "")) as caller:
        Asking(caller)(op, values)
    with session_link(scene) as link:
        ask_session(link, meant, others)

    assert not scene.run.done


def test_wrong_values_of_commands_are_refused_in_the_notebook(scene: Scene) -> None:
    run = scene.run
    for odd in ODD:
        if type(odd) is not str:
            with pytest.raises(InvalidArgumentError):
                run.topology = odd
        if odd is not True:
            with pytest.raises(InvalidArgumentError):
                run.synchronous = odd
        with pytest.raises(InvalidArgumentError):
            run.advance(odd)
        if odd != "":
            with pytest.raises(InvalidArgumentError, match="at is "):
                run.switch("ring", at=odd)
        if odd not in ("", None):
            with pytest.raises(InvalidArgumentError):
                run.link = odd
    with pytest.raises(InvalidArgumentError, match=f"at is {MANY + 1}, and this"):
        run.switch("ring", at=MANY + 1)
    scene.check()
