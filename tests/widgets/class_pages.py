"""The pages of a shared board as a browser asks for them and tells them something."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.training.paced import LONG_S

Reply = tuple[int, str]  # the status and the text


def request(url: str, path: str = "", body: bytes | None = None) -> Reply:
    """Ask for a page; with a body, post that."""
    where = urlsplit(url)
    with closing(
        HTTPConnection(where.hostname or "", where.port, timeout=LONG_S)
    ) as line:
        line.request("GET" if body is None else "POST", where.path + path, body)
        answer = line.getresponse()
        return answer.status, answer.read().decode()


def say(url: str, **said: str) -> Reply:
    """Tell a page something, as its script does."""
    return request(url, "say", json.dumps(said).encode())
