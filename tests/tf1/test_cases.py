"""`kit.tf1` does in every recorded case what the original was seen to do.

One test a topic: thousands of tests of a millisecond each would take long to collect. A
failure names each case that differs, and how.
"""

from __future__ import annotations

import pytest

from kit import tf1
from kit.tf1.session.server import stop_all
from tests.tf1 import gallery
from tests.tf1.agreement import difference
from tests.tf1.outcome import outcome_of


# A queue runner's thread that nobody coordinates ends with its error, as there.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("topic", gallery.topics())
def test_every_outcome_of_a_topic_is_one_that_the_original_gave(topic: str) -> None:
    recorded = gallery.recorded(topic)
    wrong = []
    for name, case in gallery.cases_of(topic).items():
        ours = outcome_of(case, tf1)
        stop_all()
        result = {
            version: difference(ours, recorded[version][name])
            for version in gallery.VERSIONS
            if "absent" not in recorded[version][name]
        }
        if None not in result.values():
            wrong += [f"{name}, not as in {v}: {text}" for v, text in result.items()]

    assert not wrong, "\n".join(wrong)
