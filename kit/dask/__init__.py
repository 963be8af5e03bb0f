"""dask arrays as feeds, and graphs as dask graphs."""

from kit.dask import graph as graph
