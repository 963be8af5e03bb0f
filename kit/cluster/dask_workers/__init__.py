"""Tasks in the workers of a dask cluster: `Cluster.from_dask`.

`workers.py` asks the dask cluster whom it has and chooses, `plugin.py` is what runs in
a dask worker, and `engines.py` brings the tasks there and supervises them.
"""
