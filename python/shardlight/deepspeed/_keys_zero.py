"""The keys of zero_optimization, as in deepspeed/runtime/zero/config.py and offload_config.py of
DeepSpeed 0.19.8."""

from __future__ import annotations

import sys
from typing import Any

from shardlight.deepspeed._keys import Fate, Key

H, M, N, R = Fate.HONOURED, Fate.MAPPED, Fate.NOTED, Fate.REFUSED
ZERO_PATH = "zero_optimization."


def _key(name: str, *row: Any, auto: str = "default", **more: Any) -> Key:
    return Key(ZERO_PATH + name, *row, auto=auto, **more)


def _off(name: str, fate: Fate, says: str) -> Key:
    """A flag that is false unless given."""
    return _key(name, "flag", False, fate, says, True, off=(False,))


STAGES = (
    _key("stage", "stage", 0, H, "`stage`", 2, auto=""),
    _key("contiguous_gradients", "flag", True, N,
         "a gradient is added from where autograd left it; there is nothing to defragment", True),
    _key("reduce_scatter", "flag", True, N,
         "each rank adds up the gradients that it steps with", False,
         off=(True,)),
    _key("overlap_comm", "flag", None, M,
         "true: gradients are reduced while backward goes on (`bucket_bytes`), parameters fetched "
         "ahead at stage 3 (`prefetch_bytes`). Off unless given: where ranks use all cores it "
         "gains nothing. Not over torch.distributed", True, off=(False,)),
    _key("reduce_bucket_size", "positive", 500_000_000, M,
         "with overlap_comm, `bucket_bytes`: so many elements of gradients, in bytes of the "
         "parameters' dtype, may wait to be reduced. It is no unit of communication, and no "
         "result depends on it", 1000, auto="hidden_squared"),
    _key("use_multi_rank_bucket_allreduce", "flag", True, N,
         "there are no buckets to combine", True),
    _key("allgather_partitions", "flag", True, N,
         "parameters are gathered by units when they are used", True),
    _key("allgather_bucket_size", "count", 500_000_000, N,
         "parameters are gathered by units when they are used", 1000),
    _key("compute_grad_norm", "flag", True, N,
         "the norm is always there", False, off=(True,)),
    _key("round_robin_gradients", "flag", False, N,
         "each rank owns a slice of every unit", True, off=(False,)),
    _off("parameter_alignment", N, "parameters start at multiples of 64 elements"),
    _off("legacy_stage1", N, "all stages are one path"),
    _key("ignore_unused_parameters", "flag", True, N,
         "parameters that no gradient reached keep their values, and are named in a warning after "
         "the first step", False, off=(True,)),
    _key("load_from_fp32_weights", "flag", True, N,
         "belongs to checkpoints, which cannot be loaded yet", True),
    _key("elastic_checkpoint", "flag", False, N,
         "belongs to checkpoints, which cannot be loaded yet", True, off=(False,)),
)  # fmt: skip

STAGE_3 = (
    _key("stage3_prefetch_bucket_size", "count", 50_000_000, M,
         "with overlap_comm at stage 3, `prefetch_bytes`: so many elements may be fetched ahead, "
         "by whole units, within `gathered_bytes`", 1000, auto="hidden_prefetch"),
    _key("stage3_param_persistence_threshold", "count", 100_000, N,
         "small parameters are gathered with their block, so they cost no messages of their own",
         1000, auto="hidden_persistence"),
    _key("stage3_model_persistence_threshold", "count", sys.maxsize, N,
         "no parameter is kept gathered for good", 1000),
    _key("stage3_max_live_parameters", "count", 1_000_000_000, M,
         "`gathered_bytes`, a hard cap on gathered parameters; the two largest units if not given",
         1_000_000),
    _key("stage3_max_reuse_distance", "count", 1_000_000_000, N,
         "what is used last goes first, as the micro-step before tells", 1000),
    _key("sub_group_size", "count", 1_000_000_000, N,
         "units are stepped one after another", 1000),
    _key("stage3_gather_16bit_weights_on_model_save", "flag", False, N,
         "save_16bit_model() gathers parameter by parameter, always", True),
    _key("stage3_gather_fp16_weights_on_model_save", "flag", False, N,
         "save_16bit_model() gathers parameter by parameter, always", True),
    _key("stage3_module_granularity_threshold", "count", 0, N,
         "units follow the model's blocks", 1000, off=(0,)),
    _off("stage3_use_all_reduce_for_fetch_params", N, "ranks read each other's shards"),
    _off("stage3_allgather_sequential", N, "units are gathered in place, without buckets"),
    _key("memory_efficient_linear", "flag", True, N,
         "torch's own linear keeps no gathered parameter here", True),
    _off("pipeline_loading_checkpoint", N, "belongs to checkpoints, which cannot be loaded yet"),
    _key("override_module_apply", "flag", True, N,
         "module.apply() sees whole parameters without it", True),
    _off("log_trace_cache_warnings", N, "traffic() counts what was unforeseen"),
    _off("enable_sanity_checks", M, "ranks compare what they hold after the first steps, always"),
    _off("save_muon_momentum_buffer_in_memory", N, "there is no Muon"),
    _key("leaf_module.classes", "names", None, N,
         "a module may use any parameter in any order, as each use brings its own", ["Block"]),
    _key("leaf_module.names", "names", None, N,
         "a module may use any parameter in any order, as each use brings its own", ["block"]),
    _key("leaf_module.name_suffixes", "names", None, N,
         "a module may use any parameter in any order, as each use brings its own", ["mlp"]),
    _key("zero_hpz_partition_size", "count", 1, R,
         "there is no second partition within a node", 2, off=(1, 0)),
    _off("zero_quantized_weights", R, "parameters are gathered as they are"),
    _off("zero_quantized_nontrainable_weights", R, "parameters are kept as they are"),
    _off("zero_quantized_gradients", R, "gradients are added in fp32"),
    _key("mics_shard_size", "free", -1, R, "DeepSpeed 0.19 has removed it", 2, off=(-1,)),
    _off("mics_hierarchical_params_gather", R, "DeepSpeed 0.19 has removed it"),
    _key("zeropp_loco_param", "free", None, R, "DeepSpeed 0.19 has removed it",
         {"err_beta": 0.8}, off=(None,)),
)  # fmt: skip

_ON_CPU = (
    "`cpu` is where a model on the CPU has them already; `nvme` is refused, and `cpu` of a model "
    "that is elsewhere"
)
_ONLY = "belongs to offloading, of which there is none beside the CPU"


def _offload(block: str) -> tuple[Key, ...]:
    return (
        _key(f"{block}.device", ("none", "cpu", "nvme"), "none", M, _ON_CPU, "cpu", off=("none",)),
        _key(f"{block}.nvme_path", "text", None, N, _ONLY, "/local_nvme"),
        _key(f"{block}.buffer_count", "count", 5 if block == "offload_param" else 4, N, _ONLY, 6),
        _key(f"{block}.pin_memory", "flag", True, N, _ONLY, True),
    )


OFFLOAD = (
    *_offload("offload_optimizer"),
    _off("offload_optimizer.pipeline_read", N, _ONLY),
    _off("offload_optimizer.pipeline_write", N, _ONLY),
    _off("offload_optimizer.fast_init", N, _ONLY),
    _key("offload_optimizer.ratio", "number", 1.0, N, _ONLY, 0.5, off=(1.0, 1)),
    _off("offload_optimizer.super_offload", R, "there is none"),
    _key("offload_optimizer.cpuadam_cores_perc", "number", 0.8, N, _ONLY, 0.5),
    *_offload("offload_param"),
    _key("offload_param.buffer_size", "count", 100_000_000, N, _ONLY, 1000),
    _key("offload_param.max_in_cpu", "count", 1_000_000_000, N, _ONLY, 1000),
)

# Names that are read as others: the deprecated ones, and stage 3's without their prefix.
OTHER_NAMES = {
    **{key.path.replace(".stage3_", "."): key.path for key in STAGE_3 if ".stage3_" in key.path},
    "bf16.check_overflow": "bf16.check_grad_overflow",
}
# Deprecated flags: what true is read as.
FLAGS_OF_OLD = {
    ZERO_PATH + "cpu_offload": {ZERO_PATH + "offload_optimizer.device": "cpu"},
    ZERO_PATH + "cpu_offload_param": {ZERO_PATH + "offload_param.device": "cpu"},
    ZERO_PATH + "cpu_offload_params": {ZERO_PATH + "offload_param.device": "cpu"},
    ZERO_PATH + "cpu_offload_use_pin_memory": {ZERO_PATH + "offload_optimizer.pin_memory": True},
}
