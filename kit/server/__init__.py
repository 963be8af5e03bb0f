"""One task's server: who it is, where it listens, and the services that answer there.

    Server ──► listeners of `kit.wire` ──► handlers: graphs, trainings, watchers

`server` is the front door; `engine` makes a server of an ipyparallel engine.
"""
