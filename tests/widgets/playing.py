"""What a page that plays has in it, read without the page's own script."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode

Frames = list[tuple[str, tuple[str, ...]]]  # what the slider says, and the places


def unpacked(page: str) -> dict[str, Frames]:
    """Return the frames of each track of a page."""
    (packed,) = re.findall(r'class="ps-packed">([^<]+)<', page)
    result = json.loads(gzip.decompress(b64decode(packed)))
    return {
        track["name"]: [
            (said, tuple("".join(result["pieces"][n] for n in part) for part in parts))
            for said, *parts in track["frames"]
        ]
        for track in result["tracks"]
    }
