"""`tf.math`: operations on numbers, under the names of the last releases."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse
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
from kit.tf1.ops.arithmetic import ceil as ceil
from kit.tf1.ops.arithmetic import conj as conj
from kit.tf1.ops.arithmetic import cos as cos
from kit.tf1.ops.arithmetic import cosh as cosh
from kit.tf1.ops.arithmetic import divide as divide
from kit.tf1.ops.arithmetic import equal as equal
from kit.tf1.ops.arithmetic import erf as erf
from kit.tf1.ops.arithmetic import erfc as erfc
from kit.tf1.ops.arithmetic import exp as exp
from kit.tf1.ops.arithmetic import expm1 as expm1
from kit.tf1.ops.arithmetic import floor as floor
from kit.tf1.ops.arithmetic import floordiv as floordiv
from kit.tf1.ops.arithmetic import floormod as floormod
from kit.tf1.ops.arithmetic import greater as greater
from kit.tf1.ops.arithmetic import greater_equal as greater_equal
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
from kit.tf1.ops.arithmetic import maximum as maximum
from kit.tf1.ops.arithmetic import minimum as minimum
from kit.tf1.ops.arithmetic import mod as mod
from kit.tf1.ops.arithmetic import multiply as multiply
from kit.tf1.ops.arithmetic import negative as negative
from kit.tf1.ops.arithmetic import not_equal as not_equal
from kit.tf1.ops.arithmetic import pow as pow
from kit.tf1.ops.arithmetic import real as real
from kit.tf1.ops.arithmetic import reciprocal as reciprocal
from kit.tf1.ops.arithmetic import rint as rint
from kit.tf1.ops.arithmetic import round as round
from kit.tf1.ops.arithmetic import rsqrt as rsqrt
from kit.tf1.ops.arithmetic import scalar_mul as scalar_mul
from kit.tf1.ops.arithmetic import sigmoid as sigmoid
from kit.tf1.ops.arithmetic import sign as sign
from kit.tf1.ops.arithmetic import sin as sin
from kit.tf1.ops.arithmetic import sinh as sinh
from kit.tf1.ops.arithmetic import sqrt as sqrt
from kit.tf1.ops.arithmetic import square as square
from kit.tf1.ops.arithmetic import squared_difference as squared_difference
from kit.tf1.ops.arithmetic import subtract as subtract
from kit.tf1.ops.arithmetic import tan as tan
from kit.tf1.ops.arithmetic import tanh as tanh
from kit.tf1.ops.arithmetic import truediv as truediv
from kit.tf1.ops.composed import confusion_matrix as confusion_matrix
from kit.tf1.ops.nn_activation import log_softmax as log_softmax
from kit.tf1.ops.nn_activation import softmax as softmax
from kit.tf1.ops.nn_activation import softplus as softplus
from kit.tf1.ops.nn_activation import softsign as softsign
from kit.tf1.ops.nn_layer import l2_normalize as l2_normalize
from kit.tf1.ops.nn_layer import zero_fraction as zero_fraction
from kit.tf1.ops.numbers import multiply_no_nan as multiply_no_nan
from kit.tf1.ops.numbers import polyval as polyval
from kit.tf1.ops.numbers import reciprocal_no_nan as reciprocal_no_nan
from kit.tf1.ops.numbers import reduce_euclidean_norm as reduce_euclidean_norm
from kit.tf1.ops.numbers import reduce_std as reduce_std
from kit.tf1.ops.numbers import reduce_variance as reduce_variance
from kit.tf1.ops.numbers import xdivy as xdivy
from kit.tf1.ops.numbers import xlogy as xlogy
from kit.tf1.ops.reduce import argmax as argmax
from kit.tf1.ops.reduce import argmin as argmin
from kit.tf1.ops.reduce import count_nonzero as count_nonzero
from kit.tf1.ops.reduce import cumprod as cumprod
from kit.tf1.ops.reduce import cumsum as cumsum
from kit.tf1.ops.reduce import in_top_k as in_top_k
from kit.tf1.ops.reduce import invert_permutation as invert_permutation
from kit.tf1.ops.reduce import reduce_all as reduce_all
from kit.tf1.ops.reduce import reduce_any as reduce_any
from kit.tf1.ops.reduce import reduce_logsumexp as reduce_logsumexp
from kit.tf1.ops.reduce import reduce_max as reduce_max
from kit.tf1.ops.reduce import reduce_mean as reduce_mean
from kit.tf1.ops.reduce import reduce_min as reduce_min
from kit.tf1.ops.reduce import reduce_prod as reduce_prod
from kit.tf1.ops.reduce import reduce_sum as reduce_sum
from kit.tf1.ops.reduce import top_k as top_k
from kit.tf1.ops.segment import segment_max as segment_max
from kit.tf1.ops.segment import segment_mean as segment_mean
from kit.tf1.ops.segment import segment_min as segment_min
from kit.tf1.ops.segment import segment_prod as segment_prod
from kit.tf1.ops.segment import segment_sum as segment_sum
from kit.tf1.ops.segment import unsorted_segment_max as unsorted_segment_max
from kit.tf1.ops.segment import unsorted_segment_mean as unsorted_segment_mean
from kit.tf1.ops.segment import unsorted_segment_min as unsorted_segment_min
from kit.tf1.ops.segment import unsorted_segment_prod as unsorted_segment_prod
from kit.tf1.ops.segment import unsorted_segment_sqrt_n as unsorted_segment_sqrt_n
from kit.tf1.ops.segment import unsorted_segment_sum as unsorted_segment_sum


def __getattr__(name: str) -> Any:
    refuse("math", name)
