"""The questions of other processes about an elastic training, with their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kit.errors import InvalidArgumentError
from kit.message_fields import (
    Fields,
    anything,
    list_of,
    object_of,
    optional,
    row_of,
    table_of,
    text,
    whole,
)
from kit.server.elastic.shared_copies import ShownArenas
from kit.server.elastic.standing import Plain
from kit.training.core.log import DecisionLog
from kit.training.core.snapshot import CopyPoint, Shard
from kit.training.features.elastic.generation import Holder
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.rpc import Answer, Handler

if TYPE_CHECKING:
    from kit.server.elastic.training import ElasticTraining

_RUN: Final = text(pattern="[0-9a-f]{32}")
_LOSS: Final = {"number": whole(0), "reason": text(), "step": optional(whole(0))}
_MOMENT: Final = row_of(whole(0), whole(0), whole(0))
_STATE: Final = {"moment": _MOMENT}
_HOLDERS: Final = {
    "holders": table_of(row_of(text(1000), _MOMENT)),
    "requests": table_of(anything()),
}
_ARENA: Final = optional(row_of(whole(0), whole(1), whole(0)))
_ABOUT: Final = object_of(
    {
        "moment": _MOMENT,
        "member": whole(0),
        "writers": list_of(whole(0)),
        "ranges": list_of(row_of(whole(0), whole(0))),
        "requests": table_of(anything()),
        "sizes": row_of(*4 * [whole(0)]),
    }
)


class ElasticHandlers:
    """The table, for the elastic trainings of one server."""

    def __init__(
        self, find: Callable[[str], ElasticTraining], link: Link | None = None
    ) -> None:
        """`find` returns a training by its origin; what is asked comes over `link`."""
        self._find = find
        is_for_copies = link is not None and link.role is Role.COPIES
        # The arenas in which copies that come over it may be.
        self._shown = ShownArenas(link.stream) if link and is_for_copies else None

    def table(self) -> Mapping[str, Handler]:
        """Return the handler of each question."""
        begin: Fields = {**_STATE, **_HOLDERS, "job": anything()}
        host: Fields = {"number": whole(0), "places": list_of(text(1000))}
        keep: Fields = {"run": _RUN, "about": _ABOUT, "arena": _ARENA}
        handlers: dict[str, tuple[Fields, Callable[[Plain, bytearray], Answer]]] = {
            "look": ({"begun": optional(whole(0))}, self._look),
            "lose": (_LOSS, self._lose),
            "claim": ({"number": whole(0), "after": whole(0)}, self._claim),
            "join": (
                {"process": text(1000), "number": optional(whole(0))},
                self._join,
            ),
            "host": (host, self._host),
            "begin": (begin, self._begin),
            "keep": (keep, self._keep),
            "note": ({"run": _RUN, "requests": table_of(anything())}, self._note),
            "fetch": ({**_STATE, "member": whole(0)}, self._fetch),
        }
        return {
            f"elastic.{name}": Handler({"origin": _RUN, **fields}, answer)
            for name, (fields, answer) in handlers.items()
        }

    def _here(self, asked: Plain) -> ElasticTraining:
        return self._find(asked["origin"])

    def _look(self, asked: Plain, _: bytearray) -> Answer:
        return self._here(asked).look(asked.get("begun", 0)), b""

    def _lose(self, asked: Plain, _: bytearray) -> Answer:
        loss = asked["number"], asked["reason"], asked.get("step", 0)
        return self._here(asked).lose(*loss), b""

    def _claim(self, asked: Plain, _: bytearray) -> Answer:
        return self._here(asked).claim(asked["number"], asked["after"]), b""

    def _join(self, asked: Plain, _: bytearray) -> Answer:
        candidate = asked["process"], asked.get("number", 0)
        return self._here(asked).let_join(*candidate), b""

    def _host(self, asked: Plain, _: bytearray) -> Answer:
        return self._here(asked).host(asked["number"], asked["places"]), b""

    def _begin(self, asked: Plain, _: bytearray) -> Answer:
        holders = {
            int(member): Holder(process, CopyPoint(*moment))
            for member, (process, moment) in asked["holders"].items()
        }
        state = CopyPoint(*asked["moment"]), holders, asked["requests"]
        training = self._here(asked)
        training.begin(training.rebuilt(asked["job"]), *state)
        return {}, b""

    def _keep(self, asked: Plain, blob: bytearray) -> Answer:
        data: Any = blob
        # Before anything that may raise: a descriptor may follow on the stream, and the
        # next message would be read in its place.
        if "arena" in asked:
            if self._shown is None:
                raise InvalidArgumentError("no arena can be shown on this link.")
            data = self._shown.find(*asked["arena"])
        copy = Shard.from_plain(asked["about"], data)
        return {"process": self._here(asked).keep(asked["run"], copy)}, b""

    def _note(self, asked: Plain, _: bytearray) -> Answer:
        log = DecisionLog.from_plain(asked["requests"])
        return self._here(asked).note(asked["run"], log), b""

    def _fetch(self, asked: Plain, _: bytearray) -> Answer:
        moment = CopyPoint(*asked["moment"])
        copy = self._here(asked).fetch(moment, asked["member"])
        return {"about": copy.about()}, copy.data
