"""What another thread of this process is doing."""

from __future__ import annotations

import sys
from types import FrameType

_LOOKS = 5


def frames_of(thread: int) -> list[FrameType]:
    """Return the frames of a thread, the innermost first; none if it is over.

    The thread may go on meanwhile, and its frames may then lead to what is no frame
    (seen in CPython 3.11 on a busy machine); a look again finds those of then.
    """
    for _ in range(_LOOKS):
        frames: list[FrameType] = []
        frame = sys._current_frames().get(thread)
        while isinstance(frame, FrameType):
            frames.append(frame)
            frame = frame.f_back
        if frame is None:
            return frames
    return []
