"""A page of HTML as a test reads it."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements of a page, each with its text; checks that tags match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []  # of each element, in the order of their beginning
        self.text = ""  # of all, but for scripts and styles
        self._open: list[int] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "br", "link", "img", "input"):
            self._open.append(len(self.tags) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.tags[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for number in self._open:
            self.texts[number] += data
        if self._open and self.tags[self._open[-1]][0] not in ("script", "style"):
            self.text += data

    def count(self, tag: str) -> int:
        return [name for name, _ in self.tags].count(tag)

    def of_class(self, name: str) -> list[str]:
        """Return the texts of the elements of a class."""
        return [
            text
            for (_, attributes), text in zip(self.tags, self.texts, strict=True)
            if name in (attributes.get("class") or "").split()
        ]

    def asked(self) -> list[str]:
        """Return what a browser would ask others for."""
        return [
            f"{tag} {name}={value}"
            for tag, attributes in self.tags
            for name, value in attributes.items()
            if tag in ("link", "iframe", "object")
            or (
                name in ("src", "href", "srcset")
                and not (value or "").startswith(("#", "data:"))
            )
        ]
