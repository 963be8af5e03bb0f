"""Names of the original that are not offered, and what to use instead.

Pure. Looking up such a name raises an `AttributeError` that says so; for a name that
the original does not have either, it is a plain one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from kit.errors import UnimplementedError


class OutsideScopeError(UnimplementedError, AttributeError):
    """A name of the original that `kit.tf1` does not offer.

    Raised when the name is looked up, so `hasattr` is false for it. The caller takes
    what the message names in its place. A retry fails again.
    """


_TRAIN = "kit.train(...) runs the steps, with hooks, checkpoints and recovery"
_KERAS = "tf.layers has layers; write others with tf.get_variable and tf.matmul"
_INPUT = (
    "tf.data.Dataset of arrays or of a generator, or feeds; kit.train(...) has more"
)
_DATA = "tf.data.Dataset.from_generator takes what any Python code reads or joins"
_BOARD = "widgets.TrafficBoard shows a run, run.trace saves it"

_OTHERWISE = "compute it with the operations offered here, or in a tf.py_func"

# By the path of a name; a name that ends in a dot stands for all below it.
_INSTEAD: dict[str, str] = {
    **dict.fromkeys(
        [
            "train.Checkpoint",
            *("estimator.", "distribute."),
        ],
        _TRAIN,
    ),
    **dict.fromkeys(["keras.", "layers.", "contrib.layers.", "contrib.slim."], _KERAS),
    **dict.fromkeys(["contrib.rnn.", "contrib.seq2seq.", "nn.rnn_cell."], _KERAS),
    **dict.fromkeys(
        [
            *("io.", "python_io.", "image."),
        ],
        _INPUT,
    ),
    **dict.fromkeys(["profiler.", "python_debug."], _BOARD),
    **dict.fromkeys(
        ["map_fn", "scan", "foldl", "foldr"],
        "write the loop in Python around session.run, or in a tf.py_func",
    ),
    **dict.fromkeys(
        ["function.", "Defun", "py_function", "numpy_function"],
        "kit.py_function puts a Python function into a graph of kit",
    ),
    **dict.fromkeys(
        ["saved_model.", "graph_util.", "lite."],
        "tf.train.Saver, tf.train.import_meta_graph and tf.import_graph_def",
    ),
    "contrib.session_bundle.": "tf.saved_model.simple_save(session, folder, inputs, "
    "outputs), or tf.train.Saver().save(session, path)",
    "data.": _DATA,
    "enable_eager_execution": "numpy computes at once; a graph runs in a session",
    "GradientTape": "tf.gradients",
    "contrib.": "of contrib: framework, layers, learn, losses, metrics, rnn and slim",
    "compat.": "this module itself has the names of version 1; compat has texts",
    "debugging.": "the errors of tf.errors name the operation and its line",
    "linalg.": "tf.matmul and numpy's functions on tensors of kit",
    "losses.": "tf.reduce_mean of each example's loss, given to tf.losses.add_loss",
    "metrics.": "fetch the values, and count in Python",
    **dict.fromkeys(["random.experimental.", "queue."], _OTHERWISE),
    **dict.fromkeys(["distributions.", "signal.", "spectral.", "sets."], _OTHERWISE),
    **dict.fromkeys(["bitwise.", "manip.", "ragged.", "raw_ops."], _OTHERWISE),
    **dict.fromkeys(["audio.", "quantization.", "user_ops."], _OTHERWISE),
    **dict.fromkeys(["feature_column.", "lookup.", "nest."], _INPUT),
    **dict.fromkeys(["autograph.", "xla.", "experimental."], _OTHERWISE),
    **dict.fromkeys(["train.experimental.", "config.experimental."], _TRAIN),
    "sparse.": "tf.IndexedSlices, tf.gather and tf.scatter_add",
    "strings.": "strings can be constants, fed, compared, and joined with +",
    "test.": "pytest",
    "tpu.": "the devices are CPU and GPU",
}


def refusing(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that has all it offers; see `refuse`."""
    return lambda name: refuse(module, name)


def refuse(module: str, name: str) -> NoReturn:
    """Raise for a name that a module of `kit.tf1` does not have.

    `module` is '' for `tf` itself, 'train' for `tf.train`. `OutsideScopeError` if the
    original has it, else `AttributeError`.
    """
    path = f"{module}.{name}" if module else name
    instead = _advice(path)
    if instead is None:
        raise AttributeError(
            f"module 'tf{'.' * bool(module)}{module}' has no {name!r}."
        )
    raise OutsideScopeError(
        f"tf.{path} is outside the scope of kit.tf1, which offers the distributed "
        f"runtime of TensorFlow 1.x: graphs, sessions, servers, variables, placement "
        f"and optimizers. Instead: {instead}."
    )


def _advice(path: str) -> str | None:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if length == len(parts) and key in _INSTEAD:
            return _INSTEAD[key]
        if f"{key}." in _INSTEAD:
            return _INSTEAD[f"{key}."]
    return _OTHERWISE if path in OUTSIDE else None


# --------------------------------------------------------------------------------------
# Names of the original that `kit.tf1` does not offer, module by module.


_BY_MODULE: Final[dict[str, str]] = {
    "": """
        AttrValue COMPILER_VERSION CXX11_ABI_FLAG CriticalSection
        FixedLenSequenceFeature GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER
        GRAPH_DEF_VERSION_MIN_PRODUCER IndexedSlicesSpec LMDBReader MONOLITHIC_BUILD
        Module NameAttrList NoGradient NotDifferentiable OptionalSpec PriorityQueue
        QUANTIZED_DTYPES RaggedTensor RaggedTensorSpec RegisterGradient SparseFeature
        SparseTensorSpec TensorArray TensorArraySpec TensorInfo TensorSpec TypeSpec
        as_string batch_scatter_update betainc
        bincount broadcast_dynamic_shape broadcast_static_shape cholesky
        cholesky_solve control_flow_v2_enabled convert_to_tensor_or_sparse_tensor cross
        decode_base64 decode_compressed decode_json_example delete_session_tensor
        dequantize deserialize_many_sparse digamma dimension_at_index
        disable_control_flow_v2 disable_resource_variables disable_tensor_equality
        disable_v2_tensorshape edit_distance enable_control_flow_v2
        enable_resource_variables enable_tensor_equality enable_v2_behavior
        enable_v2_tensorshape encode_base64 extract_image_patches extract_volume_patches
        fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient
        fake_quant_with_min_max_vars fake_quant_with_min_max_vars_gradient
        fake_quant_with_min_max_vars_per_channel
        fake_quant_with_min_max_vars_per_channel_gradient fft fft2d fft3d fingerprint
        get_logger get_session_handle get_session_tensor grad_pass_through
        histogram_fixed_width histogram_fixed_width_bins identity_n ifft ifft2d ifft3d
        igamma igammac is_non_decreasing is_strictly_increasing lbeta lgamma
        load_file_system_library load_library load_op_library log_sigmoid make_template
        matrix_band_part matrix_determinant matrix_diag matrix_diag_part matrix_inverse
        matrix_set_diag matrix_solve matrix_solve_ls matrix_square_root
        matrix_triangular_solve no_gradient nondifferentiable_batch_function
        parse_single_sequence_example parse_tensor polygamma print qint16 qint32 qint8
        qr quantize quantize_v2 quantized_concat quint16 quint8 random_gamma
        random_poisson recompute_grad reduce_join regex_replace
        register_tensor_conversion_function required_space_to_batch_paddings resource
        resource_variables_enabled reverse_sequence reverse_v2 roll self_adjoint_eig
        self_adjoint_eigvals serialize_many_sparse serialize_sparse serialize_tensor
        setdiff1d sparse_add sparse_concat
        sparse_fill_empty_rows sparse_mask sparse_matmul sparse_maximum sparse_merge
        sparse_minimum sparse_reduce_max sparse_reduce_max_sparse sparse_reduce_sum
        sparse_reduce_sum_sparse sparse_reorder sparse_reset_shape sparse_reshape
        sparse_retain sparse_slice sparse_softmax sparse_split
        sparse_tensor_dense_matmul sparse_to_indicator sparse_transpose string_join
        string_split string_strip string_to_hash_bucket string_to_hash_bucket_fast
        string_to_hash_bucket_strong string_to_number substr svd switch_case tensordot
        timestamp trace unique unique_with_counts
        unravel_index variable_creator_scope variable_op_scope variant vectorized_map
        where_v2 wrap_function write_file zeta
    """,
    "initializers": """

    """,
    "logging": """
        flush log_every_n log_first_n log_if vlog
    """,
    "math": """
        bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc bincount cumulative_logsumexp
        digamma igamma igammac is_non_decreasing is_strictly_increasing lbeta lgamma
        log_sigmoid nextafter polygamma zeta
    """,
    "nn": """
        all_candidate_sampler avg_pool2d avg_pool3d batch_norm_with_global_normalization
        collapse_repeated compute_accidental_hits compute_average_loss conv3d
        conv3d_backprop_filter conv3d_backprop_filter_v2 conv3d_transpose
        ctc_beam_search_decoder ctc_beam_search_decoder_v2 ctc_greedy_decoder ctc_loss
        ctc_loss_v2 ctc_unique_labels depthwise_conv2d_backprop_filter
        depthwise_conv2d_backprop_input depthwise_conv2d_native_backprop_filter
        depthwise_conv2d_native_backprop_input dilation2d erosion2d
        fixed_unigram_candidate_sampler fractional_avg_pool fractional_max_pool
        fused_batch_norm learned_unigram_candidate_sampler log_uniform_candidate_sampler
        max_pool2d max_pool3d nce_loss normalize_moments pool
        quantized_avg_pool quantized_conv2d quantized_max_pool quantized_relu_x raw_rnn
        safe_embedding_lookup_sparse sampled_softmax_loss scale_regularization_loss
        static_state_saving_rnn sufficient_statistics
        uniform_candidate_sampler weighted_moments with_space_to_batch
    """,
    "summary": """
        all_v2_summary_ops audio get_summary_description initialize tensor_summary
    """,
    "train": """
        AdagradDAOptimizer CheckpointManager FeatureList FeatureLists
        SequenceExample
        VocabInfo checkpoints_iterator do_quantize_training_on_graphdef
        init_from_checkpoint maybe_batch maybe_batch_join maybe_shuffle_batch
        maybe_shuffle_batch_join sdca_fprint sdca_optimizer sdca_shrink_l1
        warm_start
    """,
}

OUTSIDE: Final = frozenset(
    f"{module}.{name}" if module else name
    for module, names in _BY_MODULE.items()
    for name in names.split()
)
