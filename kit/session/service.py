"""Answers on a session link: questions of clients, of masters, and pushed tensors.

of clients    create extend prepare run close devices cluster_reset
of masters    status register segment cancel end reset
of peers      put, which is not answered
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.errors import DeadlineExceededError, KitError, to_plain
from kit.errors import from_plain as error_from_plain
from kit.graph.node import from_plain as nodes_from_plain
from kit.session import segment_text
from kit.session.channel import Channel, recv_parcel, send_parcel
from kit.session.master import Master
from kit.session.step import Step
from kit.session.worker import ParticipantWays, Worker
from kit.wire.link import Link

_IDLE_S = 3600.0
_ANSWER_S = 60.0

Answer = tuple[dict[str, Any], list[Any]]


class Service:
    """Both services of one task, at the end of their links."""

    def __init__(self, master: Master, worker: Worker) -> None:
        self._master, self._worker = master, worker
        self._table: dict[str, Callable[[dict[str, Any], list[Any]], Answer]] = {
            "create": self._create,
            "extend": self._extend,
            "prepare": self._prepare,
            "run": self._run,
            "close": self._close,
            "devices": self._devices,
            "cluster_reset": self._cluster_reset,
            "status": self._status,
            "register": self._register,
            "cancel": self._cancel,
            "end": self._end,
            "reset": self._reset,
        }

    def serve(self, link: Link) -> None:
        """Answer until the other end closes the link, which is closed then."""
        with link:
            while True:
                try:
                    meta, arrays = recv_parcel(link, _IDLE_S)
                except DeadlineExceededError:
                    continue
                except KitError:
                    return
                try:
                    self._one(link, meta, arrays)
                except KitError:
                    return

    def _one(self, link: Link, meta: dict[str, Any], arrays: list[Any]) -> None:
        op = meta.get("op")
        if op == "put":
            name, number = meta["edge"]
            value = arrays[0] if arrays else None
            self._worker.rendezvous.put(int(meta["step"]), (name, number), value)
            return
        channel = Channel(link)
        try:
            if op == "segment":
                reply, found = self._segment(channel, meta, arrays)
            else:
                reply, found = self._table[str(op)](meta, arrays)
        except Exception as error:
            reply, found = {"error": to_plain(error)}, []
        send_parcel(link, reply, found, _ANSWER_S)

    def _segment(
        self, channel: Channel, meta: dict[str, Any], arrays: list[Any]
    ) -> Answer:
        ways = ParticipantWays(self._worker, channel.link.peer, channel)
        step = Step(
            int(meta["step"]),
            str(meta["session"]),
            self._worker.task,
            ways,
            float(meta["deadline_s"]),
            traced=bool(meta.get("traced")),
        )
        found = self._worker.run(int(meta["plan"]), step, arrays)
        channel.settle(step.left_s)
        reply: dict[str, Any] = {}
        if step.records is not None:
            reply = {"nodes": step.records.nodes, "moves": step.records.transfers}
        return reply, found

    def _create(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        filters = [str(one) for one in meta.get("filters", [])]
        handle = self._master.create(soft=bool(meta.get("soft")), filters=filters)
        return {"session": handle}, []

    def _extend(self, meta: dict[str, Any], arrays: list[Any]) -> Answer:
        session = self._master.session(str(meta["session"]))
        nodes = nodes_from_plain(meta["nodes"], arrays)
        return {"version": session.extend(int(meta["version"]), nodes)}, []

    def _prepare(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        session = self._master.session(str(meta["session"]))
        number = session.prepare(
            [(str(name), int(i)) for name, i in meta["feeds"]],
            [(str(name), int(i)) for name, i in meta["fetches"]],
            [str(name) for name in meta["targets"]],
            float(meta["deadline_s"]),
        )
        return {"plan": number}, []

    def _run(self, meta: dict[str, Any], arrays: list[Any]) -> Answer:
        session = self._master.session(str(meta["session"]))
        traced = bool(meta.get("traced"))
        found, records = session.run(
            int(meta["plan"]), arrays, float(meta["deadline_s"]), traced=traced
        )
        reply: dict[str, Any] = {}
        if records is not None:
            reply = {"nodes": records.nodes, "moves": records.transfers}
        return reply, found

    def _close(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        self._master.end(str(meta["session"]))
        return {}, []

    def _devices(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        members = self._master.members
        filters = [str(one) for one in meta.get("filters", [])]
        devices = members.devices(float(meta["deadline_s"]), filters)
        return {
            "devices": [
                [one.task.short, one.type, one.index, members.incarnations[one.task]]
                for one in devices
            ]
        }, []

    def _cluster_reset(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        names = [str(one) for one in meta["names"]]
        self._master.reset(names, float(meta["deadline_s"]))
        return {}, []

    def _status(self, _: dict[str, Any], __: list[Any]) -> Answer:
        devices = [[one.type, one.index] for one in self._worker.home.devices]
        return {"devices": devices, "incarnation": self._worker.incarnation}, []

    def _register(self, meta: dict[str, Any], arrays: list[Any]) -> Answer:
        segment = segment_text.from_plain(meta["segment"], arrays, self._worker.task)
        self._worker.register(str(meta["session"]), int(meta["plan"]), segment)
        return {}, []

    def _cancel(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        self._worker.cancel(int(meta["step"]), error_from_plain(meta["error"]))
        return {}, []

    def _end(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        self._worker.end_session(str(meta["session"]))
        return {}, []

    def _reset(self, meta: dict[str, Any], _: list[Any]) -> Answer:
        self._worker.reset([str(one) for one in meta["names"]])
        return {}, []
