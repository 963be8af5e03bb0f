"""What to compute: tensors, ops and graphs, without running anything.

Pure: no I/O, no threads, no clock. Ordinary numpy code on tensors writes down a graph;
`kit.session` runs it. Each kind of op is one entry of one table (`kit.graph.table`):
its shape rule, its computation on numpy or cupy, and its gradient.
"""
