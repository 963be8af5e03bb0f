"""The functions of `tf` and `tf.nn` that write operations, one file a family.

Each is thin: the original's arguments, defaults, names and errors around an entry of
`kit.graph.ops`. `kit.tf1` and `kit.tf1.nn` list what is offered.
"""
