"""The entries of the table of ops, and the functions that write them into a graph.

Importing this package fills the table (`kit.graph.table`) and the tables of numpy's
functions (`kit.graph.speak`). One file a family.
"""

from kit.graph.ops import elementwise as elementwise
from kit.graph.ops import linear as linear
from kit.graph.ops import source as source
from kit.graph.ops import state as state
