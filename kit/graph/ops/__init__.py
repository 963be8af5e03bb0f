"""The entries of the table of ops, and the functions that write them into a graph.

Importing this package fills the table (`kit.graph.table`) and the tables of numpy's
functions (`kit.graph.speak`). One file a family.
"""

from kit.graph.ops import accumulators as accumulators
from kit.graph.ops import arg as arg
from kit.graph.ops import arithmetic as arithmetic
from kit.graph.ops import blocks as blocks
from kit.graph.ops import broadcast as broadcast
from kit.graph.ops import cast as cast
from kit.graph.ops import choose as choose
from kit.graph.ops import compare as compare
from kit.graph.ops import cumulative as cumulative
from kit.graph.ops import elementwise as elementwise
from kit.graph.ops import fill as fill
from kit.graph.ops import function as function
from kit.graph.ops import join as join
from kit.graph.ops import linear as linear
from kit.graph.ops import nn_activations as nn_activations
from kit.graph.ops import nn_embedding as nn_embedding
from kit.graph.ops import nn_images as nn_images
from kit.graph.ops import nn_layers as nn_layers
from kit.graph.ops import nn_ranking as nn_ranking
from kit.graph.ops import nn_softmax as nn_softmax
from kit.graph.ops import numpy_reduce as numpy_reduce
from kit.graph.ops import numpy_shape as numpy_shape
from kit.graph.ops import pad as pad
from kit.graph.ops import queues as queues
from kit.graph.ops import random as random
from kit.graph.ops import ranking as ranking
from kit.graph.ops import reduce as reduce
from kit.graph.ops import reduce_along as reduce_along
from kit.graph.ops import rows as rows
from kit.graph.ops import saving as saving
from kit.graph.ops import scatter as scatter
from kit.graph.ops import shape as shape
from kit.graph.ops import slicing as slicing
from kit.graph.ops import source as source
from kit.graph.ops import state as state
from kit.graph.ops import strings as strings
from kit.graph.ops import unary as unary
