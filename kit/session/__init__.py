"""Run a graph: the client's session, and the services of a task that carry it out.

    Session ──► master service of one task: place, prune, cut into segments, run a step
                   └──► worker service of every task that takes part: run its segment

Each segment is registered once; a run is one small message to each task.
"""
