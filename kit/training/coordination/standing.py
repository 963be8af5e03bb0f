"""Whether a training stands where it was asked to stand, or is still on its way there.

Pure.
"""

from __future__ import annotations

from kit.training.coordination.membership import Agreement, Verdict


def halting(agreement: Agreement) -> str:
    """Return what is wished of a training and waits for the end of a step.

    One of "pausing", "stopping" and "".

    >>> from kit.training.coordination.membership import Epoch
    >>> agreement = Agreement([0], Epoch(1, "ring"), steps=10)
    >>> agreement.arrive(0, 0, step=0); agreement.pause(); halting(agreement)
    ''
    >>> agreement.resume(); agreement.verdict(0)
    <Verdict.GO: 'go'>
    >>> agreement.arrive(0, 1, step=1); agreement.pause(steps=2)
    >>> agreement.verdict(1), halting(agreement)
    (<Verdict.GO: 'go'>, 'pausing')
    """
    if agreement.is_finished or agreement.error is not None:
        return ""
    if agreement.is_stopped:
        return "stopping"
    return "pausing" if agreement.is_paused and not _stands(agreement) else ""


def _stands(agreement: Agreement) -> bool:
    """Whether all members are at a boundary and wait there."""
    if not agreement.rounds:
        return False
    newest = max(agreement.rounds)
    waits = agreement.rounds[newest].verdict is Verdict.WAIT
    return waits and not agreement.missing(newest)
