"""The original's messages that configure sessions, servers and runs.

Pure. Fields without an effect here are kept, so that programs that set them run: thread
counts, memory fractions, graph rewriting.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from kit.cluster_def import ClusterDef
from kit.tf1.graph.message import CheckedMessage, Choice, Repeated


class GPUOptions(CheckedMessage):
    """How a process uses its GPUs."""

    per_process_gpu_memory_fraction: float
    allow_growth: bool
    allocator_type: str
    deferred_deletion_bytes: int
    visible_device_list: str
    polling_active_delay_usecs: int
    polling_inactive_delay_msecs: int
    force_gpu_compatible: bool


class OptimizerLevel(Choice):
    """How much a graph is rewritten."""

    NAMES: ClassVar = {0: "L1", -1: "L0"}


class JitLevel(Choice):
    """How much of a graph is compiled."""

    NAMES: ClassVar = {0: "DEFAULT", -1: "OFF", 1: "ON_1", 2: "ON_2"}


class TraceLevel(Choice):
    """How much of a run is recorded."""

    NAMES: ClassVar = {
        **{0: "NO_TRACE", 1: "SOFTWARE_TRACE"},
        **{2: "HARDWARE_TRACE", 3: "FULL_TRACE"},
    }


class OptimizerOptions(CheckedMessage):
    """How a graph is rewritten before it runs."""

    do_common_subexpression_elimination: bool
    do_constant_folding: bool
    max_folded_constant_in_bytes: int
    do_function_inlining: bool
    opt_level: Annotated[int, OptimizerLevel]
    global_jit_level: Annotated[int, JitLevel]
    L1 = 0
    L0 = -1
    DEFAULT = 0
    OFF = -1
    ON_1 = 1
    ON_2 = 2


class RewriterConfig(CheckedMessage):
    """Which rewritings of a graph are on."""

    layout_optimizer: int
    constant_folding: int
    shape_optimization: int
    remapping: int
    arithmetic_optimization: int
    dependency_optimization: int
    loop_optimization: int
    function_optimization: int
    memory_optimization: int
    debug_stripper: int
    scoped_allocator_optimization: int
    pin_to_host: int
    disable_model_pruning: bool
    disable_meta_optimizer: bool
    min_graph_nodes: int
    optimizers: list[str]
    DEFAULT = 0
    ON = 1
    OFF = 2
    AGGRESSIVE = 3


class GraphOptions(CheckedMessage):
    """How graphs are treated."""

    enable_recv_scheduling: bool
    optimizer_options: OptimizerOptions
    build_cost_model: int
    build_cost_model_after: int
    infer_shapes: bool
    place_pruned_graph: bool
    enable_bfloat16_sendrecv: bool
    timeline_step: int
    rewrite_options: RewriterConfig


class RPCOptions(CheckedMessage):
    """How tasks are reached."""

    use_rpc_for_inprocess_master: bool
    compression_algorithm: str
    compression_level: int
    cache_rpc_response: bool
    disable_session_connection_sharing: bool
    num_channels_per_target: int


class ThreadPoolOptionProto(CheckedMessage):
    """One pool of threads."""

    num_threads: int
    global_name: str


class SessionMetadata(CheckedMessage):
    """A session's name and version."""

    name: str
    version: int


class ConfigExperimental(CheckedMessage):
    """Options that the original calls experimental."""

    collective_group_leader: str
    executor_type: str
    recv_buf_max_chunk: int
    use_numa_affinity: bool
    collective_deterministic_sequential_execution: bool
    collective_nccl: bool
    share_session_state_in_clusterspec_propagation: bool
    disable_thread_spinning: bool
    share_cluster_devices_in_session: bool
    session_metadata: SessionMetadata
    optimize_for_static_graph: bool
    enable_mlir_bridge: bool


class ConfigProto(CheckedMessage):
    """The configuration of a session or a server."""

    device_count: dict[str, int]
    intra_op_parallelism_threads: int
    inter_op_parallelism_threads: int
    use_per_session_threads: bool
    session_inter_op_thread_pool: Repeated[ThreadPoolOptionProto]
    placement_period: int
    device_filters: list[str]
    gpu_options: GPUOptions
    allow_soft_placement: bool
    log_device_placement: bool
    graph_options: GraphOptions
    operation_timeout_in_ms: int
    rpc_options: RPCOptions
    cluster_def: ClusterDef
    isolate_session_state: bool
    share_cluster_devices_in_session: bool
    experimental: ConfigExperimental
    Experimental = ConfigExperimental


class RunOptionsExperimental(CheckedMessage):
    """Options that the original calls experimental."""

    collective_graph_key: int
    use_run_handler_pool: bool


class DebugOptions(CheckedMessage):
    """Kept for programs that set it; there is no debugger of runs."""

    global_step: int
    reset_disk_byte_usage: bool


class RunOptions(CheckedMessage):
    """Options of one run."""

    trace_level: Annotated[int, TraceLevel]
    timeout_in_ms: int
    inter_op_thread_pool: int
    output_partition_graphs: bool
    debug_options: DebugOptions
    report_tensor_allocations_upon_oom: bool
    experimental: RunOptionsExperimental
    Experimental = RunOptionsExperimental
    NO_TRACE = 0
    SOFTWARE_TRACE = 1
    HARDWARE_TRACE = 2
    FULL_TRACE = 3


class TensorConnection(CheckedMessage):
    """A tensor whose value another one has in a run, both by name."""

    from_tensor: str
    to_tensor: str


class CallableOptions(CheckedMessage):
    """What a function that runs parts of a graph takes and returns, by name."""

    feed: list[str]
    fetch: list[str]
    target: list[str]
    run_options: RunOptions
    tensor_connection: Repeated[TensorConnection]
    feed_devices: dict[str, str]
    fetch_devices: dict[str, str]
    fetch_skip_sync: bool
