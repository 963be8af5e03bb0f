"""Where a thread of the user's is, as a group's errors say it."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from kit.groups.scope import user_line
from tests.cases import for_each


@for_each("n_changes", [0, 1, 3])
def test_a_thread_whose_frames_change_under_the_look_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, n_changes: int
) -> None:
    here, looks = sys._getframe(), list[int]()

    def frames() -> dict[int, Any]:
        looks.append(1)
        return {7: here.f_code if len(looks) <= n_changes else here}

    monkeypatch.setattr(sys, "_current_frames", frames)

    assert "test_lines.py" in user_line(7)
    assert len(looks) == n_changes + 1


def test_a_thread_that_is_over_is_nowhere() -> None:
    thread = threading.Thread(target=list)
    thread.start()
    thread.join()

    assert user_line(thread.ident or 0) == ""
