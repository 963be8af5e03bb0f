"""Train a model on the tasks of a cluster: its job, its members, the notebook's handle.

    kit.train ──► Run ──link──► a member on each task: its epochs, steps and saves

It begins in `train`. Which gradient goes where is decided in `kit.exchange`.
"""
