"""The engine that DeepSpeed's users meet: the bits of shardlight.Engine on two ranks, and on one
rank everything else."""

import argparse
import contextlib
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "release" / "python"))

import shardlight  # noqa: E402
import torch  # noqa: E402
from shardlight import deepspeed  # noqa: E402

torch.set_num_threads(1)
ADAM = {"type": "Adam", "params": {"lr": 0.01}}
CONFIG = {"train_batch_size": 4, "optimizer": ADAM}
EXAMPLE = ROOT / "examples" / "deepspeed"


def test_two_ranks_have_the_bits_of_the_engine_itself(run_ranks, tmp_path):
    printed = run_ranks(2, "deepspeed_ranks.py", tmp_path)
    equal = re.findall(r"^stage (\d) in torch.(\S+): equal$", printed, re.MULTILINE)
    assert equal == [(str(stage), "float32") for stage in range(4)] + [("3", "bfloat16")]
    assert "boundaries and edits: kept" in printed


def test_the_example_learns(run_ranks):
    config = EXAMPLE / "ds_config.json"
    words = ("--deepspeed_config", config)
    printed = run_ranks(2, EXAMPLE / "train.py", *words, torchrun=True)
    rights = re.findall(r"^epoch \d: \d+ steps, (\S+) % right$", printed, re.MULTILINE)
    assert len(rights) == 3 and float(rights[-1]) > 90
    assert len(re.findall(r"step \d+0: skipped 0, lr", printed)) == 6, "rank 0 alone tells"


@pytest.fixture
def made():
    """made(config={}, …): an engine, destroyed at the end."""
    engines = []

    def make(config=None, model=None, **given):
        model = model or torch.nn.Linear(4, 3)
        result = deepspeed.initialize(model=model, config={**CONFIG, **(config or {})}, **given)
        engines.append(result[0])
        return result

    yield make
    for engine in engines:
        engine.destroy()


def step(engine, dtype=torch.float32):
    loss = engine(torch.ones(4, 4, dtype=dtype)).float().square().sum()
    engine.backward(loss)
    engine.step()


def error_of(call, *arguments, **given):
    with pytest.raises(shardlight.UserError) as caught:
        call(*arguments, **given)
    return caught.value


def test_what_scripts_ask_of_an_engine(made):
    engine, optimizer, loader, scheduler = made({"gradient_clipping": 0.5})
    assert (loader, scheduler, engine.get_global_grad_norm()) == (None, None, None)
    assert (engine.local_rank, engine.global_rank, engine.world_size) == (0, 0, 1)
    assert engine.device.type == "cpu"
    assert engine.get_batch_info() == (4, 4, 1) == (
        engine.train_batch_size(), engine.train_micro_batch_size_per_gpu(),
        engine.gradient_accumulation_steps(),
    )  # fmt: skip
    assert engine.zero_optimization_stage() == 0 and not engine.zero_optimization()
    assert not engine.eval().module.training and engine.train().module.training
    assert engine.weight is engine.module.weight and len(list(engine.parameters())) == 2
    step(engine)
    engine.zero_grad()
    assert engine.was_step_applied() and engine.get_global_grad_norm() > 0
    assert (engine.get_lr(), engine.get_mom()) == ([0.01], [(0.9, 0.999)])
    assert (engine.global_samples, engine.skipped_steps, engine.gradient_clipping()) == (4, 0, 0.5)
    assert engine.scale(torch.ones(())).item() == 1
    assert "Linear" in repr(engine)
    with pytest.raises(AttributeError, match="tput_timer: neither .*docs/deepspeed.md"):
        engine.tput_timer
    frozen = made(model=torch.nn.Linear(4, 3).requires_grad_(True))[0]
    frozen.module.bias.requires_grad_(False)
    assert list(frozen.module_state_dict(exclude_frozen_parameters=True)) == ["weight"]


@pytest.mark.parametrize("nested", [False, True])
def test_no_sync_counts_nothing_whatever_the_boundary(made, nested):
    optimizer = {"type": "SGD", "params": {"lr": 1.0}}
    engine = made({"optimizer": optimizer, "gradient_clipping": 0})[0]
    before = engine.module_state_dict()["bias"]
    with engine.no_sync():
        for boundary in (False, True):
            engine.set_gradient_accumulation_boundary(boundary)
            with engine.no_sync() if nested else contextlib.nullcontext():
                engine.backward(engine(torch.ones(1, 4)).sum())
        assert error_of(engine.step).field == "step()"
    engine.backward(engine(torch.ones(1, 4)).sum())
    engine.step()
    assert torch.allclose(engine.module_state_dict()["bias"], before - 3)


def test_frozen_parameters_are_left_out_by_all_their_names(made):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 3))
    model[1].weight = model[0].weight.requires_grad_(False)
    state = made(model=model)[0].module_state_dict(exclude_frozen_parameters=True)
    assert list(state) == ["0.bias", "1.bias", "2.weight", "2.bias"]


def test_what_is_not_there_is_refused_by_name(made):
    engine = made()[0]
    for call, arguments in (
        ("save_checkpoint", ("out",)), ("load_checkpoint", ("out",)),
        ("set_train_batch_size", (8,)), ("set_train_micro_batch_size", (8,)),
    ):  # fmt: skip
        assert error_of(getattr(engine, call), *arguments).field == f"{call}()"
    assert error_of(engine.backward, torch.ones(2)).field == "loss"
    assert error_of(engine.backward, 3).field == "loss"
    with engine.no_sync():
        assert error_of(engine.step).field == "step()"
    with pytest.raises(AttributeError, match="ops: use torch.optim"):
        deepspeed.ops
    with pytest.raises(AttributeError, match="has no no_such"):
        deepspeed.no_such


def test_arguments_of_initialize_are_errors_by_name(tmp_path):
    model, args = torch.nn.Linear(2, 2), SimpleNamespace(deepspeed_config=str(tmp_path))
    start = deepspeed.initialize
    assert error_of(start, config=CONFIG).field == "model"
    assert error_of(start, model=model).field == "config"
    twice = error_of(start, args=args, model=model, config=CONFIG)
    assert twice.value == "given as config and args.deepspeed_config"
    for name in ("mpu", "mesh_param"):
        assert error_of(start, model=model, config=CONFIG, **{name: (1, 2)}).field == name
    assert error_of(start, model=model, config={"train_batch_size": 1}).field == "optimizer"
    assert error_of(start, model=model, config=CONFIG, optimizer="adam").field == "optimizer"
    for name, key in (("accumulation", "gradient_accumulation_steps"),
                      ("clip_norm", "gradient_clipping")):  # fmt: skip
        error = error_of(start, model=model, config=CONFIG, choices={name: 2})
        assert error.field == f"choices.{name}" and key in error.allowed
    said = {**CONFIG, "log_level": "loud"}
    assert error_of(start, model=model, config=said).field == "log_level"


@pytest.mark.parametrize(
    ("block", "field", "says"),
    [
        ({"type": "Lion"}, "optimizer.type", "a class of your own"),
        ({"type": "Lamb"}, "optimizer.type", "whole tensors"),
        ({"type": "OneBitAdam"}, "optimizer.type", "removed"),
        ({"type": "AdamX"}, "optimizer.type", "did you mean Adam"),
        ({"type": "AdamW", "params": {"betaz": 1}}, "optimizer.params.betaz", "did you mean betas"),
        ({"type": "AdamW", "params": {"lr": -1}}, "optimizer.params", "Invalid learning rate"),
        ({"type": "AdamW", "params": {"lr": "auto"}}, "optimizer.params.lr", "args.learning_rate"),
        ({"type": "AdamW", "params": [1]}, "optimizer.params", "an object"),
        ({"type": "Adam", "params": {"max_grad_norm": 1}}, "optimizer.params.max_grad_norm",
         "gradient_clipping"),
        ({"type": "Adam", "params": {"bias_correction": False}},
         "optimizer.params.bias_correction", "true"),
        ({"type": "Adam", "params": {"fp32_optimizer_states": False}},
         "optimizer.params.fp32_optimizer_states", "fp32"),
    ],
)  # fmt: skip
def test_optimizers_that_cannot_be_are_named(block, field, says):
    config = {**CONFIG, "optimizer": block}
    error = error_of(deepspeed.initialize, model=torch.nn.Linear(2, 2), config=config)
    assert error.field == field and says in str(error)


@pytest.mark.parametrize(
    ("name", "params", "cls", "decay"),
    [
        ("Adam", {}, "AdamW", 0.0), ("adam", {"adam_w_mode": False}, "Adam", 0.0),
        ("AdamW", {"adam_w_mode": False}, "AdamW", 0.0),
        ("AdamW", {"torch_adam": True}, "AdamW", 0.01),
        ("AdamW", {"weight_decay": "auto"}, "AdamW", 0.3), ("SGD", {"lr": 1}, "SGD", 0),
        ("Adagrad", {}, "Adagrad", 0), ("RMSprop", {}, "RMSprop", 0),
    ],
)  # fmt: skip
def test_an_optimizer_is_what_deepspeed_makes_of_it(made, name, params, cls, decay):
    config = {"optimizer": {"type": name, "params": params}}
    engine, optimizer, *_ = made(config, args=SimpleNamespace(weight_decay=0.3))
    assert type(optimizer).__name__ == cls
    assert optimizer.param_groups[0]["weight_decay"] == decay
    step(engine)


def test_what_a_script_gives_comes_before_the_config(made):
    model = torch.nn.Linear(4, 3)
    sgd = torch.optim.SGD([{"params": model.parameters()}, {"params": []}], lr=1.0)
    engine, optimizer, _, scheduler = made(
        {"scheduler": {"type": "WarmupLR"}}, model, optimizer=sgd,
        lr_scheduler=torch.optim.lr_scheduler.StepLR(sgd, 1, 0.5),
    )  # fmt: skip
    assert optimizer is sgd and len(sgd.param_groups) == 1
    assert {"optimizer: initialize() was given another one, which counts",
            "scheduler: initialize() was given another one, which counts"} <= {*engine.config_notes}
    step(engine)
    assert engine.get_lr() == [0.5]
    third = torch.nn.Linear(4, 3)
    optimizer = made(model=third, model_parameters=third.parameters(), optimizer=torch.optim.SGD)[1]
    assert type(optimizer) is torch.optim.SGD


def test_schedulers_of_a_config(made):
    block = {"type": "WarmupLR", "params": {
        "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto",
    }}  # fmt: skip
    engine, *_, scheduler = made({"scheduler": block}, args=SimpleNamespace(warmup_steps=2))
    assert (scheduler.min_lrs, scheduler.max_lrs) == ([0], [0.01])
    for expected in (0.0, 0.01):
        step(engine)
        assert engine.get_lr() == [expected]
    torchs = {"type": "ExponentialLR", "params": {"gamma": 0.5}}
    engine = made({"scheduler": torchs})[0]
    step(engine)
    assert engine.get_lr() == [0.005]
    for wrong, field in (
        ({"type": "WarmupRL"}, "scheduler.type"),
        ({"type": "WarmupLR", "params": {"warmup_steps": 1}}, "scheduler.params.warmup_steps"),
        ({"type": "WarmupDecayLR"}, "scheduler.params"),
        ({"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}},
         "scheduler.params.total_num_steps"),
    ):  # fmt: skip
        config = {**CONFIG, "scheduler": wrong}
        error = error_of(deepspeed.initialize, model=torch.nn.Linear(2, 2), config=config)
        assert error.field == field


class Buffered(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("kept", torch.zeros(3))

    def forward(self, some):
        self.seen = some.dtype
        return super().forward(some)


def test_precision_is_that_of_the_config(made):
    fp16 = {"enabled": True, "auto_cast": True, "initial_scale_power": 4}
    kinds = {"buffer_dtype": "fp16", "keep_in_fp32_modules": ["kept"], "grad_accum_dtype": "fp32"}
    engine = made({"fp16": fp16, "data_types": kinds}, Buffered())[0]
    assert engine.fp16_enabled() and engine.module.weight.dtype == torch.float16
    assert (engine.mean.dtype, engine.kept.dtype) == (torch.float16, torch.float32)
    assert engine.scale(torch.ones((), requires_grad=True)).item() == 16
    engine(some=torch.ones(1, 4))
    assert engine.module.seen == torch.float16
    loss = engine(torch.full((1, 4), 6e4)).float().square().sum()
    engine.backward(loss)
    engine.step()
    assert not engine.was_step_applied() and engine.skipped_steps == 1
    engine = made({"bf16": {"enabled": True}}, Buffered())[0]
    assert engine.bfloat16_enabled() and engine.module.weight.dtype == torch.bfloat16
    assert engine.mean.dtype == torch.float32
    step(engine, torch.bfloat16)


def test_a_skipped_step_leaves_the_schedule(made):
    engine = made({"scheduler": {"type": "ExponentialLR", "params": {"gamma": 0.5}}})[0]
    engine.backward(engine(torch.full((4, 4), torch.inf)).sum())
    engine.step()
    assert (engine.get_lr(), engine.global_steps, engine.skipped_steps) == ([0.01], 1, 1)


def test_rank_0_tells_what_the_config_asks_for(made, caplog):
    asked = {"steps_per_print": 2, "wall_clock_breakdown": True, "memory_breakdown": True,
             "dump_state": True, "prescale_gradients": True}  # fmt: skip
    with caplog.at_level(logging.INFO, "shardlight.deepspeed"):
        engine = made(asked)[0]
        for _ in range(3):
            step(engine)
    told = caplog.text
    assert "prescale_gradients: gradients are added in fp32" in told
    assert len(re.findall(r"step \d: skipped 0, lr \[0.01\]", told)) == 1
    times = re.findall(r"step \d: forward \S+ ms, backward \S+ ms, step \S+ ms", told)
    assert len(times) == 3 and told.count("Memory of this rank") == 3
    assert '"dump_state": true' in told and '"clip_norm": 1.0' in told
    caplog.clear()
    step(made({"steps_per_print": float("inf"), "log_level": "warning"})[0])
    assert caplog.text == ""


def test_a_loader_of_the_training_data(made):
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    engine, _, loader, _ = made({"dataloader_drop_last": True}, training_data=data)
    assert engine.training_dataloader is loader
    batches = [batch for (batch,) in loader]
    assert [len(batch) for batch in batches] == [4, 4]
    joined = engine.deepspeed_io(data, 5, collate_fn=len, route="eval")
    assert list(joined) == [5, 5]


def test_arguments_of_a_script(made):
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    args = parser.parse_args(["--deepspeed", "--deepspeed_config", "ds.json"])
    assert (args.deepspeed, args.deepspeed_config) == (True, "ds.json")


def test_contexts_of_zero():
    model = torch.nn.Linear(2, 3)
    with deepspeed.zero.Init(config_dict_or_path=CONFIG, remote_device="cpu"):
        assert torch.nn.Linear(2, 3).weight.shape == model.weight.shape
    assert error_of(deepspeed.zero.Init, remote_device="nvme").field == "remote_device"
    assert error_of(deepspeed.zero.Init, mpu=3).field == "mpu"
    assert error_of(deepspeed.zero.Init, dtype=torch.float32).field == "dtype"
    assert error_of(deepspeed.zero.Init, config=CONFIG, dtype=torch.bfloat16).field == "dtype"
    deepspeed.zero.Init(config={"bf16": {"enabled": True}}, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match="dtipe"):
        deepspeed.zero.Init(dtipe=torch.float32)
    gathered = deepspeed.zero.GatheredParameters
    assert error_of(gathered, model.weight, modifier_rank=1).field == "modifier_rank"
    for given in ({"enabled": False}, {"modifier_rank": 0}):
        with gathered(model.parameters(), **given):
            model.weight.data.zero_()
    deepspeed.zero.register_external_parameter(model, model.weight)


def test_ranks_of_comm(nobody_launched):
    comm = deepspeed.comm
    assert (comm.get_rank(), comm.get_world_size(), comm.get_local_rank()) == (0, 1, 0)
    comm.barrier()
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        nobody_launched.setenv(name, value)
    assert (comm.get_rank(), comm.get_world_size(), comm.get_local_rank()) == (5, 8, 1)
    assert error_of(comm.init_distributed).field == "MASTER_ADDR"
    comm.init_distributed(dist_init_required=False)
    with pytest.raises(AttributeError, match="no_such"):
        comm.no_such
    assert comm.ReduceOp is torch.distributed.ReduceOp
