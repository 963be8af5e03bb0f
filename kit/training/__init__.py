"""Train a model on the tasks of a cluster: its job, its members, the notebook's handle.

    kit.train ──► Run ──link──► a member on each task: its epochs, steps and saves

`launch` is the front door. Which gradient goes where is decided in `kit.exchange`.
"""
