"""The entries of the table of ops, and the functions that write them into a graph.

Importing this package fills the table (`kit.graph.table`) and the tables of numpy's
functions (`kit.graph.array_protocol`). One file a family.
"""

from kit.graph.ops.array import blocks as blocks
from kit.graph.ops.array import branches as branches
from kit.graph.ops.array import broadcast as broadcast
from kit.graph.ops.array import choose as choose
from kit.graph.ops.array import fed_axis as fed_axis
from kit.graph.ops.array import fill as fill
from kit.graph.ops.array import join as join
from kit.graph.ops.array import numpy_shape as numpy_shape
from kit.graph.ops.array import pad as pad
from kit.graph.ops.array import rows as rows
from kit.graph.ops.array import scatter as scatter
from kit.graph.ops.array import shape as shape
from kit.graph.ops.array import slicing as slicing
from kit.graph.ops.math import arithmetic as arithmetic
from kit.graph.ops.math import cast as cast
from kit.graph.ops.math import compare as compare
from kit.graph.ops.math import complex_parts as complex_parts
from kit.graph.ops.math import einsum as einsum
from kit.graph.ops.math import elementwise as elementwise
from kit.graph.ops.math import linear as linear
from kit.graph.ops.math import numpy_reduce as numpy_reduce
from kit.graph.ops.math import random as random
from kit.graph.ops.math import ranking as ranking
from kit.graph.ops.math import reduce as reduce
from kit.graph.ops.math import segment as segment
from kit.graph.ops.math import unary as unary
from kit.graph.ops.nn import activations as activations
from kit.graph.ops.nn import embedding as embedding
from kit.graph.ops.nn import images as images
from kit.graph.ops.nn import layers as layers
from kit.graph.ops.nn import softmax as softmax
from kit.graph.ops.state import accumulators as accumulators
from kit.graph.ops.state import checks as checks
from kit.graph.ops.state import data as data
from kit.graph.ops.state import function as function
from kit.graph.ops.state import image_files as image_files
from kit.graph.ops.state import loop as loop
from kit.graph.ops.state import printing as printing
from kit.graph.ops.state import queues as queues
from kit.graph.ops.state import readers as readers
from kit.graph.ops.state import saving as saving
from kit.graph.ops.state import source as source
from kit.graph.ops.state import state as state
from kit.graph.ops.state import strings as strings
from kit.graph.ops.state import summaries as summaries
