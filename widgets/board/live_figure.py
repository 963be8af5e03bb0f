"""A figure of bokeh as a widget of which every new view shows the present state.

A widget of jupyter_bokeh keeps the figure as it was at the start: a page that is loaded
again, or a second one, would begin with that. So the state is made anew whenever a page
asks for it, and what changes while the page builds the view is sent again when the view
reports that it is there.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from bokeh.core.serialization import BytesRep, Serializer
from bokeh.document import Document
from bokeh.document.events import ColumnDataChangedEvent, ModelChangedEvent
from bokeh.document.json import PatchJson
from bokeh.model import Model
from bokeh.models import CustomJS
from bokeh.protocol.messages.patch_doc import patch_doc
from jupyter_bokeh import BokehModel

from widgets.drawing.front_end import TELL, WATCH, page_draws


class LiveFigure(BokehModel):  # type: ignore[misc]  # it has no types
    """A figure that takes nothing from the page but changes of its name.

    The page reports every colour that it has set, in a form that bokeh then refuses;
    and an error in such a message fails the cell that happens to run.

    Changes go to the page when `tell` is called, all together: a single change takes
    three messages, and each wakes threads here and in the page's server.
    """

    def __init__(
        self, figure: Any, guard: Any, changed: Callable[[LiveFigure, str], None]
    ) -> None:
        """Make it; `told` is called with what a new view says of itself.

        Pages ask in another thread than the one that draws; both hold the `guard`.
        """
        self._guard = guard
        self._events: list[Any] = []
        self._changed: dict[tuple[Any, str], None] = {}
        self._newer: dict[tuple[Any, str], None] = {}  # than what was made for pages
        document = Document()
        document.add_root(figure)
        tells = CustomJS(args={"figure": figure}, code=TELL + WATCH)
        document.js_on_event("document_ready", tells)
        self._told = changed
        document.on_change(self._on_change)
        super().__init__(figure)
        self._take(self.render_bundle)

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        """Return what a page begins with: the figure as it is now."""
        if key is None and self.comm is not None:  # not while it is being made
            # Not by assignment: that would notify the pages that have the figure, and
            # each would draw all of it again.
            with self._guard:
                self._trait_values["render_bundle"] = self._bundle()
                return super().get_state(key, drop_defaults)
        return super().get_state(key, drop_defaults)

    def _bundle(self) -> Any:
        """Return what a page begins with.

        Bokeh takes 0.1 s or more to write a figure, and a page that is loaded again
        waits a second or two for all the figures of a notebook. So only what changed is
        written again, into what was written before.
        """
        models = self._model.document.models
        values = {
            (model, attr): model.lookup(attr).get_value(model)
            for model, attr in self._newer
        }
        # Models that were added since then are not in the old text, and others stand in
        # it where they are first named: a value that holds any may be that place.
        is_known = {model.id for model in models} == self._known
        if not is_known or any(map(_holds_models, values.values())):
            self._take(self._model_to_traits(self._model))
            return self.written
        writer = _Writer(references=set(models))
        for (model, attr), value in values.items():
            self._attributes[model.id][attr] = writer.encode(value)
        self._newer.clear()
        return self.written

    def _take(self, made: Any) -> None:
        """Take what bokeh has made of the figure as it is now."""
        self.written = made
        self._known = {model.id for model in self._model.document.models}
        self._attributes = dict(_attributes(made["docs_json"]))  # by the model's id
        self._newer.clear()

    def _on_change(self, event: Any) -> None:
        is_known = isinstance(event, ModelChangedEvent | ColumnDataChangedEvent)
        if is_known and event.attr != "name":
            self._changed[event.model, event.attr] = None
            self._newer[event.model, event.attr] = None

    def _document_patched(self, event: Any) -> None:
        if event.setter is not self:  # the page has what it sent itself
            self._events.append(event)

    def repeat(self) -> None:
        """Send all that ever changed once more, with the next `tell`."""
        for model, attr in list(self._changed):
            value = getattr(model, attr)
            model.trigger(attr, value, value)

    def tell(self) -> None:
        """Send what has changed."""
        events, self._events = self._events, []
        if not events:
            return
        # As `Protocol.create` does, but with the numbers in the text: as a buffer, each
        # array would be two more messages.
        models = events[0].document.models
        references = {model for model in models if model.id in self._known}
        content = PatchJson(events=_Writer(references=references).encode(events))
        patch = patch_doc(patch_doc.create_header(), {}, content)
        for part in (patch.header_json, patch.metadata_json, patch.content_json):
            self.send({"msg": "patch", "payload": part})

    def _sync_model(self, model: Any, content: dict[str, Any], buffers: Any) -> None:
        if content.get("attr") == "name":
            page_draws()
            self._told(self, str(content.get("new")))


def _holds_models(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(item, Model) for item in values)


def _attributes(plain: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the id and the attributes of each model that bokeh has written."""
    if isinstance(plain, list | tuple):
        for item in plain:
            yield from _attributes(item)
    elif isinstance(plain, dict):
        if plain.get("type") == "object" and "id" in plain:
            yield plain["id"], plain.setdefault("attributes", {})
        for item in plain.values():
            yield from _attributes(item)


class _Writer(Serializer):
    """Writes arrays into the text of a patch, and an array of the same bytes only once.

    All links of a figure have the same times. Bokeh's own serializer compresses each
    array anew, and looks up two settings for it.
    """

    def _encode_bytes(self, obj: bytes | memoryview) -> BytesRep:
        return BytesRep(type="bytes", data=_text(bytes(obj)))


@lru_cache(64)
def _text(raw: bytes) -> str:
    """Return bytes in the form that bokeh's page reads, with the least compression."""
    return b64encode(gzip.compress(raw, compresslevel=1, mtime=1)).decode()
