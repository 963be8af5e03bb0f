"""The widget that shows HTML on a live page: what is not `Html` it shows as text.

The widget of ipywidgets takes any text for HTML, so no other file makes one.
"""

from __future__ import annotations

from typing import Any

import ipywidgets as ipw
import traitlets

from kit.markup import Html, markup


class _HtmlValue(traitlets.TraitType[Html, object]):
    default_value = Html()

    def validate(self, obj: Any, value: object) -> Html:
        return markup("{}", value)


class HtmlView(ipw.HTML):  # type: ignore[misc]  # it has no types
    """A place on the page with a piece of HTML, its `value`.

    >>> HtmlView("<b>worker</b>").value
    Markup('&lt;b&gt;worker&lt;/b&gt;')
    """

    value = _HtmlValue().tag(sync=True)
