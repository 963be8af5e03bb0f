"""dask arrays as feeds, and graphs as dask graphs."""
