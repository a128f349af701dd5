"""Blocks of a DeepSpeed config whose features are not here, each with one fate for its keys."""

from __future__ import annotations

from shardlight.deepspeed._keys import Block, Fate

_REMOVED = "DeepSpeed 0.19 has removed it"
_MONITOR = "write what you want from your loop: get_lr(), get_global_grad_norm(), loss"
N, R = Fate.NOTED, Fate.REFUSED


_SWITCHES = ("enabled", "deepcompile", "autotp_size")


def _block(path: str, keys: str, fate: Fate, says: str) -> Block:
    names = tuple(keys.split())
    switch = next((name for name in _SWITCHES if name in names), "")
    return Block(path, names, fate, says, switch)


BLOCKS = (
    _block("tensorboard", "enabled output_path job_name", N, _MONITOR),
    _block("wandb", "enabled group team project", N, _MONITOR),
    _block("csv_monitor", "enabled output_path job_name", N, _MONITOR),
    _block("comet", "enabled samples_log_interval project workspace api_key experiment_name "
           "experiment_key online mode", N, _MONITOR),
    _block("flops_profiler", "enabled recompute_fwd_factor profile_step module_depth top_modules "
           "detailed output_file", N, "use torch.utils.flop_counter"),
    _block("comms_logger", "enabled verbose prof_all debug prof_ops", N,
           "traffic() of the engine has counts, bytes and times"),
    _block("timers", "throughput", N, "wall_clock_breakdown has the times"),
    _block("autotuning", "enabled fast results_dir exps_dir overwrite start_profile_step "
           "end_profile_step metric_path tuner_type tuner_early_stopping tuner_num_trials "
           "arg_mappings max_train_batch_size min_train_batch_size "
           "max_train_micro_batch_size_per_gpu min_train_micro_batch_size_per_gpu "
           "num_tuning_micro_batch_sizes mp_size metric model_info_path model_info", R,
           "`shardlight plan` computes what fits"),
    _block("activation_checkpointing", "partition_activations number_checkpoints "
           "contiguous_memory_optimization synchronize_checkpoint_boundary profile "
           "cpu_checkpointing", N,
           "it is for deepspeed.checkpointing alone; use torch.utils.checkpoint"),
    _block("aio", "block_size queue_depth intra_op_parallelism single_submit overlap_events "
           "use_gds", N, "nothing is on NVMe"),
    _block("checkpoint", "tag_validation load_universal use_node_local_storage parallel_write "
           "checkpoint_serialization writer", N, "there are no checkpoints yet"),
    _block("datastates_ckpt", "", R, "there are no checkpoints yet"),
    _block("data_efficiency", "enabled seed data_sampling data_routing", R,
           "sample in your loader"),
    _block("hybrid_engine", "enabled max_out_tokens inference_tp_size release_inference_cache "
           "pin_parameters tp_gather_partition_size enable_cuda_graph", R,
           "call the module under torch.no_grad()"),
    _block("pipeline", "stages partition seed_layers activation_checkpoint_interval "
           "pipe_partitioned grad_partitioned", N, "there is no pipeline parallelism"),
    _block("tensor_parallel", "dtype autotp_size tp_overlap_comm vocab_parallel_lm_head "
           "vocab_parallel_ce_backend tensor_parallel tp injection_policy_tuple partition_config "
           "preset_model keep_module_on_host replace_with_kernel_inject kernel_inject", R,
           "there is no tensor parallelism"),
    _block("expert_parallel", "enabled autoep_size expert_tensor_parallel_size "
           "validate_folding_routing async_split_plan preset_model moe_layer_pattern "
           "expert_pattern router_pattern use_grouped_mm disable_triton_grouped_mm route_norm "
           "route_scale score_apply combine_impl row_weighting_impl gate_up_impl comm_backend "
           "comm_num_sm comm_qp_margin comm_max_tokens_per_rank num_expert_groups "
           "num_limited_groups score_func top_k load_balance_coeff routed_scaling_factor "
           "expert_w1 expert_w2 expert_w3 num_experts_attr top_k_attr has_shared_experts "
           "shared_experts_pattern shared_experts_gate_pattern expert_activation", R,
           "there is no expert parallelism; experts are sharded as all parameters are"),
    _block("compile", "deepcompile autoep_non_moe free_activation free_activation_threshold "
           "offload_activation offload_activation_pin_memory offload_opt_states double_buffer "
           "symmetric_memory debug_log offload_parameters sync_before_reduce sync_after_reduce "
           "sync_before_allgather sync_after_allgather keep_int_input_tensors "
           "keep_all_input_tensors passes", R, "there is no DeepCompile"),
    _block("weight_quantization", "", R, "weights are as they are"),
    _block("zero_optimization.zenflow", "topk_ratio select_strategy select_interval "
           "update_interval overlap_step offload auto_ratio full_warm_up_rounds "
           "pt_reserved_cores_perc steps_per_epoch", R, "there is no ZenFlow"),
    _block("amp", "", R, _REMOVED + "; use bf16 or fp16"),
    _block("compression_training", "", R, _REMOVED),
    _block("curriculum_learning", "", R, _REMOVED),
    _block("eigenvalue", "", R, _REMOVED),
    _block("elasticity", "", R, _REMOVED + "; give the batch sizes"),
    _block("graph_harvesting", "", R, _REMOVED),
    _block("nebula", "", R, _REMOVED),
    _block("progressive_layer_drop", "", R, _REMOVED),
    _block("quantize_training", "", R, _REMOVED),
    _block("sparse_attention", "", R, _REMOVED),
    _block("sparse_gradients", "", R, _REMOVED),
)  # fmt: skip
