"""Tasks in the workers of a dask cluster: `Cluster.from_dask`.

`workers.py` asks the dask cluster for its workers and chooses some, `plugin.py` runs in
a dask worker, and `engines.py` starts the tasks there and supervises them.
"""
