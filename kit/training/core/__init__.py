"""What trains by itself: decisions, members, steps; no feature is needed.

What decides, and what a step is, reads in this order:

    job          what all members agree on before the start; `axes`: its three choices
    log          what was decided since, in order, and what that comes to
    agreement    which boundary is next, and what happens there: pure
    coordinator  the same with a lock and a clock: who is alive, what is asked for
    member       one task's thread: arrive, prepare, do steps until a halt; its heart
    epoch        what changes when an epoch begins, and what carries its steps out
    loops        the phases of a step, in order; each is a method of a `part`

Beside them: `questions` is all that a member asks the coordinator, and how; `failures`
finds and says who is lost, `digests` whose parameters differ; `context` is what a
member has; `snapshot` is the state before one step, for whoever wants it; `news`,
`activity` and `printed` are what others may see; `conflicts` are options that exclude
each other; `terms` what workers that begin by themselves must agree on.
"""
