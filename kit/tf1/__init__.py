"""The names of TensorFlow 1.x: `from kit import tf1 as tf` in place of its import.

Graphs, sessions, servers, variables, placement and optimizers of the original's
distributed runtime, on top of `kit`. Values, names, dtypes and types of errors are the
original's; where it would wait for ever, a `DeadlineExceededError` says what is
missing.
"""

from __future__ import annotations

from typing import Any

from kit.devices.device import DeviceSpec as DeviceSpec
from kit.graph.op import IndexedSlices as IndexedSlices
from kit.session.client.fetches import IndexedSlicesValue as IndexedSlicesValue
from kit.tf1 import app as app
from kit.tf1 import compat as compat
from kit.tf1 import contrib as contrib
from kit.tf1 import data as data
from kit.tf1 import errors as errors
from kit.tf1 import flags as flags
from kit.tf1 import gfile as gfile
from kit.tf1 import graph_util as graph_util
from kit.tf1 import image as image
from kit.tf1 import keras as keras
from kit.tf1 import layers as layers
from kit.tf1 import logging as logging
from kit.tf1 import losses as losses
from kit.tf1 import math as math
from kit.tf1 import metrics as metrics
from kit.tf1 import nn as nn
from kit.tf1 import python_io as python_io
from kit.tf1 import random as random
from kit.tf1 import saved_model as saved_model
from kit.tf1 import summary as summary
from kit.tf1 import test as test
from kit.tf1 import train as train
from kit.tf1.accumulators import ConditionalAccumulator as ConditionalAccumulator
from kit.tf1.accumulators import (
    ConditionalAccumulatorBase as ConditionalAccumulatorBase,
)
from kit.tf1.accumulators import (
    SparseConditionalAccumulator as SparseConditionalAccumulator,
)
from kit.tf1.errors import OpError as OpError
from kit.tf1.graph.collections import GraphKeys as GraphKeys
from kit.tf1.graph.collections import add_to_collection as add_to_collection
from kit.tf1.graph.collections import add_to_collections as add_to_collections
from kit.tf1.graph.collections import get_collection as get_collection
from kit.tf1.graph.collections import get_collection_ref as get_collection_ref
from kit.tf1.graph.control import colocate_with as colocate_with
from kit.tf1.graph.control import container as container
from kit.tf1.graph.control import control_dependencies as control_dependencies
from kit.tf1.graph.control import device as device
from kit.tf1.graph.control import group as group
from kit.tf1.graph.control import init_scope as init_scope
from kit.tf1.graph.control import no_op as no_op
from kit.tf1.graph.graph import Graph as Graph
from kit.tf1.graph.graph import disable_eager_execution as disable_eager_execution
from kit.tf1.graph.graph import disable_v2_behavior as disable_v2_behavior
from kit.tf1.graph.graph import executing_eagerly as executing_eagerly
from kit.tf1.graph.graph import get_default_graph as get_default_graph
from kit.tf1.graph.graph import reset_default_graph as reset_default_graph
from kit.tf1.graph.graph_def import GraphDef as GraphDef
from kit.tf1.graph.graph_def import NodeDef as NodeDef
from kit.tf1.graph.importing import import_graph_def as import_graph_def
from kit.tf1.graph.operation import Operation as Operation
from kit.tf1.not_offered import refuse
from kit.tf1.older import batch_matmul as batch_matmul
from kit.tf1.older import histogram_summary as histogram_summary
from kit.tf1.older import image_summary as image_summary
from kit.tf1.older import inv as inv
from kit.tf1.older import merge_all_summaries as merge_all_summaries
from kit.tf1.older import merge_summary as merge_summary
from kit.tf1.older import mul as mul
from kit.tf1.older import neg as neg
from kit.tf1.older import op_scope as op_scope
from kit.tf1.older import pack as pack
from kit.tf1.older import scalar_summary as scalar_summary
from kit.tf1.older import select as select
from kit.tf1.older import sub as sub
from kit.tf1.older import unpack as unpack
from kit.tf1.ops.arithmetic import abs as abs
from kit.tf1.ops.arithmetic import accumulate_n as accumulate_n
from kit.tf1.ops.arithmetic import acos as acos
from kit.tf1.ops.arithmetic import acosh as acosh
from kit.tf1.ops.arithmetic import add as add
from kit.tf1.ops.arithmetic import add_n as add_n
from kit.tf1.ops.arithmetic import angle as angle
from kit.tf1.ops.arithmetic import asin as asin
from kit.tf1.ops.arithmetic import asinh as asinh
from kit.tf1.ops.arithmetic import atan as atan
from kit.tf1.ops.arithmetic import atan2 as atan2
from kit.tf1.ops.arithmetic import atanh as atanh
from kit.tf1.ops.arithmetic import bitcast as bitcast
from kit.tf1.ops.arithmetic import cast as cast
from kit.tf1.ops.arithmetic import ceil as ceil
from kit.tf1.ops.arithmetic import complex as complex
from kit.tf1.ops.arithmetic import conj as conj
from kit.tf1.ops.arithmetic import cos as cos
from kit.tf1.ops.arithmetic import cosh as cosh
from kit.tf1.ops.arithmetic import div as div
from kit.tf1.ops.arithmetic import divide as divide
from kit.tf1.ops.arithmetic import equal as equal
from kit.tf1.ops.arithmetic import erf as erf
from kit.tf1.ops.arithmetic import erfc as erfc
from kit.tf1.ops.arithmetic import exp as exp
from kit.tf1.ops.arithmetic import expm1 as expm1
from kit.tf1.ops.arithmetic import floor as floor
from kit.tf1.ops.arithmetic import floor_div as floor_div
from kit.tf1.ops.arithmetic import floordiv as floordiv
from kit.tf1.ops.arithmetic import floormod as floormod
from kit.tf1.ops.arithmetic import greater as greater
from kit.tf1.ops.arithmetic import greater_equal as greater_equal
from kit.tf1.ops.arithmetic import identity as identity
from kit.tf1.ops.arithmetic import imag as imag
from kit.tf1.ops.arithmetic import is_finite as is_finite
from kit.tf1.ops.arithmetic import is_inf as is_inf
from kit.tf1.ops.arithmetic import is_nan as is_nan
from kit.tf1.ops.arithmetic import less as less
from kit.tf1.ops.arithmetic import less_equal as less_equal
from kit.tf1.ops.arithmetic import log as log
from kit.tf1.ops.arithmetic import log1p as log1p
from kit.tf1.ops.arithmetic import logical_and as logical_and
from kit.tf1.ops.arithmetic import logical_not as logical_not
from kit.tf1.ops.arithmetic import logical_or as logical_or
from kit.tf1.ops.arithmetic import logical_xor as logical_xor
from kit.tf1.ops.arithmetic import matmul as matmul
from kit.tf1.ops.arithmetic import maximum as maximum
from kit.tf1.ops.arithmetic import minimum as minimum
from kit.tf1.ops.arithmetic import mod as mod
from kit.tf1.ops.arithmetic import multiply as multiply
from kit.tf1.ops.arithmetic import negative as negative
from kit.tf1.ops.arithmetic import not_equal as not_equal
from kit.tf1.ops.arithmetic import pow as pow
from kit.tf1.ops.arithmetic import real as real
from kit.tf1.ops.arithmetic import realdiv as realdiv
from kit.tf1.ops.arithmetic import reciprocal as reciprocal
from kit.tf1.ops.arithmetic import rint as rint
from kit.tf1.ops.arithmetic import round as round
from kit.tf1.ops.arithmetic import rsqrt as rsqrt
from kit.tf1.ops.arithmetic import saturate_cast as saturate_cast
from kit.tf1.ops.arithmetic import scalar_mul as scalar_mul
from kit.tf1.ops.arithmetic import sigmoid as sigmoid
from kit.tf1.ops.arithmetic import sign as sign
from kit.tf1.ops.arithmetic import sin as sin
from kit.tf1.ops.arithmetic import sinh as sinh
from kit.tf1.ops.arithmetic import sqrt as sqrt
from kit.tf1.ops.arithmetic import square as square
from kit.tf1.ops.arithmetic import squared_difference as squared_difference
from kit.tf1.ops.arithmetic import stop_gradient as stop_gradient
from kit.tf1.ops.arithmetic import subtract as subtract
from kit.tf1.ops.arithmetic import tan as tan
from kit.tf1.ops.arithmetic import tanh as tanh
from kit.tf1.ops.arithmetic import to_double as to_double
from kit.tf1.ops.arithmetic import to_float as to_float
from kit.tf1.ops.arithmetic import to_int32 as to_int32
from kit.tf1.ops.arithmetic import to_int64 as to_int64
from kit.tf1.ops.arithmetic import truediv as truediv
from kit.tf1.ops.checks import Assert as Assert
from kit.tf1.ops.checks import add_check_numerics_ops as add_check_numerics_ops
from kit.tf1.ops.checks import assert_equal as assert_equal
from kit.tf1.ops.checks import assert_greater as assert_greater
from kit.tf1.ops.checks import assert_greater_equal as assert_greater_equal
from kit.tf1.ops.checks import assert_integer as assert_integer
from kit.tf1.ops.checks import assert_less as assert_less
from kit.tf1.ops.checks import assert_less_equal as assert_less_equal
from kit.tf1.ops.checks import assert_near as assert_near
from kit.tf1.ops.checks import assert_negative as assert_negative
from kit.tf1.ops.checks import assert_non_negative as assert_non_negative
from kit.tf1.ops.checks import assert_non_positive as assert_non_positive
from kit.tf1.ops.checks import assert_none_equal as assert_none_equal
from kit.tf1.ops.checks import assert_positive as assert_positive
from kit.tf1.ops.checks import assert_proper_iterable as assert_proper_iterable
from kit.tf1.ops.checks import assert_rank as assert_rank
from kit.tf1.ops.checks import assert_rank_at_least as assert_rank_at_least
from kit.tf1.ops.checks import assert_rank_in as assert_rank_in
from kit.tf1.ops.checks import assert_same_float_dtype as assert_same_float_dtype
from kit.tf1.ops.checks import assert_scalar as assert_scalar
from kit.tf1.ops.checks import assert_type as assert_type
from kit.tf1.ops.checks import check_numerics as check_numerics
from kit.tf1.ops.checks import ensure_shape as ensure_shape
from kit.tf1.ops.checks import is_numeric_tensor as is_numeric_tensor
from kit.tf1.ops.checks import verify_tensor_all_finite as verify_tensor_all_finite
from kit.tf1.ops.clip import clip_by_average_norm as clip_by_average_norm
from kit.tf1.ops.clip import clip_by_global_norm as clip_by_global_norm
from kit.tf1.ops.clip import clip_by_norm as clip_by_norm
from kit.tf1.ops.clip import clip_by_value as clip_by_value
from kit.tf1.ops.clip import global_norm as global_norm
from kit.tf1.ops.composed import argsort as argsort
from kit.tf1.ops.composed import confusion_matrix as confusion_matrix
from kit.tf1.ops.composed import depth_to_space as depth_to_space
from kit.tf1.ops.composed import diag as diag
from kit.tf1.ops.composed import diag_part as diag_part
from kit.tf1.ops.composed import div_no_nan as div_no_nan
from kit.tf1.ops.composed import dynamic_partition as dynamic_partition
from kit.tf1.ops.composed import dynamic_stitch as dynamic_stitch
from kit.tf1.ops.composed import einsum as einsum
from kit.tf1.ops.composed import sort as sort
from kit.tf1.ops.composed import space_to_depth as space_to_depth
from kit.tf1.ops.condition import case as case
from kit.tf1.ops.condition import cond as cond
from kit.tf1.ops.creation import constant as constant
from kit.tf1.ops.creation import eye as eye
from kit.tf1.ops.creation import fill as fill
from kit.tf1.ops.creation import lin_space as lin_space
from kit.tf1.ops.creation import linspace as linspace
from kit.tf1.ops.creation import one_hot as one_hot
from kit.tf1.ops.creation import ones as ones
from kit.tf1.ops.creation import ones_like as ones_like
from kit.tf1.ops.creation import placeholder as placeholder
from kit.tf1.ops.creation import placeholder_with_default as placeholder_with_default
from kit.tf1.ops.creation import range as range
from kit.tf1.ops.creation import sequence_mask as sequence_mask
from kit.tf1.ops.creation import zeros as zeros
from kit.tf1.ops.creation import zeros_like as zeros_like
from kit.tf1.ops.flow import Print as Print
from kit.tf1.ops.flow import tuple as tuple
from kit.tf1.ops.function import py_func as py_func
from kit.tf1.ops.gradient import AggregationMethod as AggregationMethod
from kit.tf1.ops.gradient import UnconnectedGradients as UnconnectedGradients
from kit.tf1.ops.gradient import custom_gradient as custom_gradient
from kit.tf1.ops.gradient import gradients as gradients
from kit.tf1.ops.gradient import hessians as hessians
from kit.tf1.ops.index import batch_gather as batch_gather
from kit.tf1.ops.index import boolean_mask as boolean_mask
from kit.tf1.ops.index import gather as gather
from kit.tf1.ops.index import gather_nd as gather_nd
from kit.tf1.ops.index import repeat as repeat
from kit.tf1.ops.index import scatter_nd as scatter_nd
from kit.tf1.ops.index import searchsorted as searchsorted
from kit.tf1.ops.index import slice as slice
from kit.tf1.ops.index import strided_slice as strided_slice
from kit.tf1.ops.index import tensor_scatter_add as tensor_scatter_add
from kit.tf1.ops.index import tensor_scatter_nd_add as tensor_scatter_nd_add
from kit.tf1.ops.index import tensor_scatter_nd_sub as tensor_scatter_nd_sub
from kit.tf1.ops.index import tensor_scatter_nd_update as tensor_scatter_nd_update
from kit.tf1.ops.index import tensor_scatter_sub as tensor_scatter_sub
from kit.tf1.ops.index import tensor_scatter_update as tensor_scatter_update
from kit.tf1.ops.index import where as where
from kit.tf1.ops.join import concat as concat
from kit.tf1.ops.join import meshgrid as meshgrid
from kit.tf1.ops.join import parallel_stack as parallel_stack
from kit.tf1.ops.join import split as split
from kit.tf1.ops.join import stack as stack
from kit.tf1.ops.join import unstack as unstack
from kit.tf1.ops.loop import while_loop as while_loop
from kit.tf1.ops.numbers import norm as norm
from kit.tf1.ops.numbers import truncatediv as truncatediv
from kit.tf1.ops.numbers import truncatemod as truncatemod
from kit.tf1.ops.random import get_seed as get_seed
from kit.tf1.ops.random import multinomial as multinomial
from kit.tf1.ops.random import random_crop as random_crop
from kit.tf1.ops.random import random_normal as random_normal
from kit.tf1.ops.random import random_shuffle as random_shuffle
from kit.tf1.ops.random import random_uniform as random_uniform
from kit.tf1.ops.random import set_random_seed as set_random_seed
from kit.tf1.ops.random import truncated_normal as truncated_normal
from kit.tf1.ops.reduce import arg_max as arg_max
from kit.tf1.ops.reduce import arg_min as arg_min
from kit.tf1.ops.reduce import argmax as argmax
from kit.tf1.ops.reduce import argmin as argmin
from kit.tf1.ops.reduce import count_nonzero as count_nonzero
from kit.tf1.ops.reduce import cumprod as cumprod
from kit.tf1.ops.reduce import cumsum as cumsum
from kit.tf1.ops.reduce import invert_permutation as invert_permutation
from kit.tf1.ops.reduce import reduce_all as reduce_all
from kit.tf1.ops.reduce import reduce_any as reduce_any
from kit.tf1.ops.reduce import reduce_logsumexp as reduce_logsumexp
from kit.tf1.ops.reduce import reduce_max as reduce_max
from kit.tf1.ops.reduce import reduce_mean as reduce_mean
from kit.tf1.ops.reduce import reduce_min as reduce_min
from kit.tf1.ops.reduce import reduce_prod as reduce_prod
from kit.tf1.ops.reduce import reduce_sum as reduce_sum
from kit.tf1.ops.segment import segment_max as segment_max
from kit.tf1.ops.segment import segment_mean as segment_mean
from kit.tf1.ops.segment import segment_min as segment_min
from kit.tf1.ops.segment import segment_prod as segment_prod
from kit.tf1.ops.segment import segment_sum as segment_sum
from kit.tf1.ops.segment import sparse_segment_mean as sparse_segment_mean
from kit.tf1.ops.segment import sparse_segment_sqrt_n as sparse_segment_sqrt_n
from kit.tf1.ops.segment import sparse_segment_sum as sparse_segment_sum
from kit.tf1.ops.segment import unsorted_segment_max as unsorted_segment_max
from kit.tf1.ops.segment import unsorted_segment_mean as unsorted_segment_mean
from kit.tf1.ops.segment import unsorted_segment_min as unsorted_segment_min
from kit.tf1.ops.segment import unsorted_segment_prod as unsorted_segment_prod
from kit.tf1.ops.segment import unsorted_segment_sqrt_n as unsorted_segment_sqrt_n
from kit.tf1.ops.segment import unsorted_segment_sum as unsorted_segment_sum
from kit.tf1.ops.shape import broadcast_to as broadcast_to
from kit.tf1.ops.shape import expand_dims as expand_dims
from kit.tf1.ops.shape import guarantee_const as guarantee_const
from kit.tf1.ops.shape import matrix_transpose as matrix_transpose
from kit.tf1.ops.shape import pad as pad
from kit.tf1.ops.shape import rank as rank
from kit.tf1.ops.shape import reshape as reshape
from kit.tf1.ops.shape import reverse as reverse
from kit.tf1.ops.shape import shape as shape
from kit.tf1.ops.shape import shape_n as shape_n
from kit.tf1.ops.shape import size as size
from kit.tf1.ops.shape import squeeze as squeeze
from kit.tf1.ops.shape import tile as tile
from kit.tf1.ops.shape import transpose as transpose
from kit.tf1.ops.sparse import sparse_tensor_to_dense as sparse_tensor_to_dense
from kit.tf1.ops.sparse import sparse_to_dense as sparse_to_dense
from kit.tf1.parsing import FixedLenFeature as FixedLenFeature
from kit.tf1.parsing import VarLenFeature as VarLenFeature
from kit.tf1.parsing import decode_csv as decode_csv
from kit.tf1.parsing import decode_raw as decode_raw
from kit.tf1.parsing import parse_example as parse_example
from kit.tf1.parsing import parse_single_example as parse_single_example
from kit.tf1.queues import FIFOQueue as FIFOQueue
from kit.tf1.queues import PaddingFIFOQueue as PaddingFIFOQueue
from kit.tf1.queues import QueueBase as QueueBase
from kit.tf1.queues import RandomShuffleQueue as RandomShuffleQueue
from kit.tf1.readers import FixedLengthRecordReader as FixedLengthRecordReader
from kit.tf1.readers import IdentityReader as IdentityReader
from kit.tf1.readers import ReaderBase as ReaderBase
from kit.tf1.readers import TextLineReader as TextLineReader
from kit.tf1.readers import TFRecordReader as TFRecordReader
from kit.tf1.readers import WholeFileReader as WholeFileReader
from kit.tf1.readers import matching_files as matching_files
from kit.tf1.readers import read_file as read_file
from kit.tf1.session.config import ConfigProto as ConfigProto
from kit.tf1.session.config import GPUOptions as GPUOptions
from kit.tf1.session.config import GraphOptions as GraphOptions
from kit.tf1.session.config import OptimizerOptions as OptimizerOptions
from kit.tf1.session.config import RunOptions as RunOptions
from kit.tf1.session.run_metadata import RunMetadata as RunMetadata
from kit.tf1.session.running import get_default_session as get_default_session
from kit.tf1.session.session import InteractiveSession as InteractiveSession
from kit.tf1.session.session import Session as Session
from kit.tf1.summary.messages import MESSAGES, message
from kit.tf1.tensor.convert import convert_to_tensor as convert_to_tensor
from kit.tf1.tensor.convert import (
    convert_to_tensor_or_indexed_slices as convert_to_tensor_or_indexed_slices,
)
from kit.tf1.tensor.dtypes import DType as DType
from kit.tf1.tensor.dtypes import as_dtype as as_dtype
from kit.tf1.tensor.dtypes import bool_ as bool  # noqa: F401
from kit.tf1.tensor.dtypes import complex64 as complex64
from kit.tf1.tensor.dtypes import complex128 as complex128
from kit.tf1.tensor.dtypes import double as double
from kit.tf1.tensor.dtypes import float16 as float16
from kit.tf1.tensor.dtypes import float32 as float32
from kit.tf1.tensor.dtypes import float64 as float64
from kit.tf1.tensor.dtypes import half as half
from kit.tf1.tensor.dtypes import int8 as int8
from kit.tf1.tensor.dtypes import int16 as int16
from kit.tf1.tensor.dtypes import int32 as int32
from kit.tf1.tensor.dtypes import int64 as int64
from kit.tf1.tensor.dtypes import string as string
from kit.tf1.tensor.dtypes import uint8 as uint8
from kit.tf1.tensor.dtypes import uint16 as uint16
from kit.tf1.tensor.dtypes import uint32 as uint32
from kit.tf1.tensor.dtypes import uint64 as uint64
from kit.tf1.tensor.proto import get_static_value as get_static_value
from kit.tf1.tensor.proto import is_tensor as is_tensor
from kit.tf1.tensor.proto import make_ndarray as make_ndarray
from kit.tf1.tensor.proto import make_tensor_proto as make_tensor_proto
from kit.tf1.tensor.shape import Dimension as Dimension
from kit.tf1.tensor.shape import TensorShape as TensorShape
from kit.tf1.tensor.shape import dimension_value as dimension_value
from kit.tf1.tensor.sparse import SparseTensor as SparseTensor
from kit.tf1.tensor.sparse import SparseTensorValue as SparseTensorValue
from kit.tf1.tensor.sparse import sparse_placeholder as sparse_placeholder
from kit.tf1.tensor.tensor import Tensor as Tensor
from kit.tf1.variables import initializers as initializers
from kit.tf1.variables.assigning import assign as assign
from kit.tf1.variables.assigning import assign_add as assign_add
from kit.tf1.variables.assigning import assign_sub as assign_sub
from kit.tf1.variables.assigning import count_up_to as count_up_to
from kit.tf1.variables.assigning import (
    is_variable_initialized as is_variable_initialized,
)
from kit.tf1.variables.assigning import scatter_add as scatter_add
from kit.tf1.variables.assigning import scatter_div as scatter_div
from kit.tf1.variables.assigning import scatter_max as scatter_max
from kit.tf1.variables.assigning import scatter_min as scatter_min
from kit.tf1.variables.assigning import scatter_mul as scatter_mul
from kit.tf1.variables.assigning import scatter_nd_add as scatter_nd_add
from kit.tf1.variables.assigning import scatter_nd_sub as scatter_nd_sub
from kit.tf1.variables.assigning import scatter_nd_update as scatter_nd_update
from kit.tf1.variables.assigning import scatter_sub as scatter_sub
from kit.tf1.variables.assigning import scatter_update as scatter_update
from kit.tf1.variables.initial_values import (
    constant_initializer as constant_initializer,
)
from kit.tf1.variables.initial_values import (
    glorot_normal_initializer as glorot_normal_initializer,
)
from kit.tf1.variables.initial_values import (
    glorot_uniform_initializer as glorot_uniform_initializer,
)
from kit.tf1.variables.initial_values import ones_initializer as ones_initializer
from kit.tf1.variables.initial_values import (
    orthogonal_initializer as orthogonal_initializer,
)
from kit.tf1.variables.initial_values import (
    random_normal_initializer as random_normal_initializer,
)
from kit.tf1.variables.initial_values import (
    random_uniform_initializer as random_uniform_initializer,
)
from kit.tf1.variables.initial_values import (
    truncated_normal_initializer as truncated_normal_initializer,
)
from kit.tf1.variables.initial_values import (
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
)
from kit.tf1.variables.initial_values import (
    variance_scaling_initializer as variance_scaling_initializer,
)
from kit.tf1.variables.initial_values import zeros_initializer as zeros_initializer
from kit.tf1.variables.partitioners import (
    fixed_size_partitioner as fixed_size_partitioner,
)
from kit.tf1.variables.partitioners import (
    min_max_variable_partitioner as min_max_variable_partitioner,
)
from kit.tf1.variables.partitioners import (
    variable_axis_size_partitioner as variable_axis_size_partitioner,
)
from kit.tf1.variables.scopes import AUTO_REUSE as AUTO_REUSE
from kit.tf1.variables.scopes import VariableScope as VariableScope
from kit.tf1.variables.scopes import (
    create_partitioned_variables as create_partitioned_variables,
)
from kit.tf1.variables.scopes import get_local_variable as get_local_variable
from kit.tf1.variables.scopes import get_variable as get_variable
from kit.tf1.variables.scopes import get_variable_scope as get_variable_scope
from kit.tf1.variables.scopes import name_scope as name_scope
from kit.tf1.variables.scopes import no_regularizer as no_regularizer
from kit.tf1.variables.scopes import variable_scope as variable_scope
from kit.tf1.variables.variable_lists import all_variables as all_variables
from kit.tf1.variables.variable_lists import (
    assert_variables_initialized as assert_variables_initialized,
)
from kit.tf1.variables.variable_lists import global_variables as global_variables
from kit.tf1.variables.variable_lists import (
    global_variables_initializer as global_variables_initializer,
)
from kit.tf1.variables.variable_lists import (
    initialize_all_tables as initialize_all_tables,
)
from kit.tf1.variables.variable_lists import (
    initialize_all_variables as initialize_all_variables,
)
from kit.tf1.variables.variable_lists import (
    initialize_local_variables as initialize_local_variables,
)
from kit.tf1.variables.variable_lists import (
    initialize_variables as initialize_variables,
)
from kit.tf1.variables.variable_lists import local_variables as local_variables
from kit.tf1.variables.variable_lists import (
    local_variables_initializer as local_variables_initializer,
)
from kit.tf1.variables.variable_lists import model_variables as model_variables
from kit.tf1.variables.variable_lists import (
    moving_average_variables as moving_average_variables,
)
from kit.tf1.variables.variable_lists import (
    report_uninitialized_variables as report_uninitialized_variables,
)
from kit.tf1.variables.variable_lists import tables_initializer as tables_initializer
from kit.tf1.variables.variable_lists import trainable_variables as trainable_variables
from kit.tf1.variables.variable_lists import (
    variables_initializer as variables_initializer,
)
from kit.tf1.variables.variables import Variable as Variable
from kit.tf1.variables.variables import VariableAggregation as VariableAggregation
from kit.tf1.variables.variables import (
    VariableSynchronization as VariableSynchronization,
)

newaxis = None
# The release that these names are from: programs check that it begins with "1.".
VERSION = __version__ = "1.15.5"
GIT_VERSION = __git_version__ = f"v{VERSION}"


def __getattr__(name: str) -> Any:
    if name in MESSAGES[""]:
        return message(name)
    refuse("", name)
