"""The table of DeepSpeed's keys: each does what its row says, and docs/deepspeed.md shows it."""

import base64
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "release" / "python"))

import shardlight  # noqa: E402
import torch  # noqa: E402
from shardlight.deepspeed import _choices, _table, page  # noqa: E402
from shardlight.deepspeed._auto import Sources  # noqa: E402
from shardlight.deepspeed._batch import MICRO, STEPS, batch_of  # noqa: E402
from shardlight.deepspeed._keys import SWITCHES, Fate  # noqa: E402
from shardlight.deepspeed._keys_blocks import BLOCKS  # noqa: E402
from shardlight.deepspeed.config import parse  # noqa: E402

BATCH = {"train_micro_batch_size_per_gpu": 2}


def read(config, world=1, model=None, **args):
    sources = Sources(model or torch.nn.Linear(2, 2), SimpleNamespace(**args))
    return parse({**BATCH, **config} if isinstance(config, dict) else config, world, sources)


def nested(path, value):
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def refused(config, field, *says, world=1, **args):
    with pytest.raises(shardlight.UserError) as caught:
        read(config, world, **args)
    assert caught.value.field == field, caught.value
    for text in says:
        assert text in str(caught.value)


def alone(path, value):
    """A config with this key, one batch size, and the switch of its section on."""
    base = {} if path in ("train_batch_size", "train_micro_batch_size_per_gpu") else BATCH
    config = {**base, **nested(path, value)}
    section = path.partition(".")[0]
    if section in SWITCHES:
        config[section] = {"enabled": True, **config[section]}
    return config


@pytest.mark.parametrize("key", _table.KEYS.values(), ids=lambda key: key.path)
def test_a_key_does_what_its_row_says(key):
    config, sources = alone(key.path, key.sample), Sources(torch.nn.Linear(2, 2))
    if key.fate is Fate.REFUSED:
        refused(config, key.path, key.says)
    else:
        parsed = parse(config, 1, sources)
        assert parsed.get(key.path) == key.sample
        assert parsed.notes == ([] if key.fate is Fate.HONOURED else [f"{key.path}: {key.says}"])
    for value in key.off:
        assert parse(alone(key.path, value), 1, sources).notes == []
    if key.default is not None and key.default != "auto":
        parse(alone(key.path, key.default), 1, sources)  # what DeepSpeed has by itself is allowed


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.path)
def test_a_block_does_what_its_row_says(block):
    some = dict.fromkeys(block.keys or ("any",), 3) | ({block.switch: True} if block.switch else {})
    if block.fate is Fate.REFUSED:
        refused(nested(block.path, some), block.path, block.says)
    else:
        assert read(nested(block.path, some)).notes == [f"{block.path}: {block.says}"]
    # Whatever its other keys say, the switch decides.
    off = {**some, block.switch: False} if block.switch else dict.fromkeys(block.keys, 0)
    auto = {block.switch or "enabled": "auto"} if block.switch or not block.keys else {}
    for value in (off, auto, {}, None):
        assert read(nested(block.path, value)).notes == []
    if block.keys:
        refused(nested(block.path, {"enabeld_": 1}), f"{block.path}.enabeld_", block.keys[0])


@pytest.mark.parametrize("key", _table.KEYS.values(), ids=lambda key: key.path)
def test_a_value_of_another_kind_is_an_error_by_the_key(key):
    if key.kind == "free":
        return
    refused(alone(key.path, [None]), key.path, _table.allowed_of(key))


def test_the_page_shows_the_table():
    shown = (ROOT / "docs" / "deepspeed.md").read_text()
    assert page.rendered(shown) == shown, "python -m shardlight.deepspeed.page docs/deepspeed.md"
    assert all(f"`{path}`" in shown for path in (*_table.KEYS, *_table.BLOCK_OF))


def test_a_typo_is_refused_with_the_nearest_key():
    for typo, near in {
        "gradient_cliping": "gradient_clipping",
        "zero_optimisation": "",
        "stage": "zero_optimization.stage",
        "zero_optimization.overlap_com": "zero_optimization.overlap_comm",
        "fp16.initial_scale": "fp16.initial_scale_power",
        "optimizer.parms": "optimizer.params",
    }.items():
        refused(nested(typo, 1), typo, "did you mean " + near if near else "")


def test_what_the_wild_writes_is_read():
    zero = "zero_optimization."
    parsed = read({
        zero + "stage": 3, "steps_per_print": math.inf, "bfloat16": {"enabled": True},
        "zero_optimization": {
            "reduce_bucket_size": 5e8, "prefetch_bucket_size": 1e3, "cpu_offload": True,
            "stage3_max_live_parameters": 1e9,
        },
    })  # fmt: skip
    assert parsed.get(zero + "stage") == 3
    assert parsed.get("steps_per_print") == math.inf
    assert parsed.get("bf16.enabled") is True
    assert parsed.get(zero + "reduce_bucket_size") == 500_000_000
    assert parsed.get(zero + "stage3_prefetch_bucket_size") == 1000
    assert parsed.get(zero + "offload_optimizer.device") == "cpu"
    text = "\n".join(parsed.notes)
    for note in (
        "zero_optimization.stage: read as if it were nested",
        "zero_optimization.prefetch_bucket_size: read as zero_optimization.stage3_",
        "zero_optimization.cpu_offload: deprecated; read as zero_optimization.offload_optimizer",
        "bfloat16: read as bf16",
    ):
        assert note in text
    assert read({"zero_optimization": True}).get(zero + "stage") == 1
    assert read({"zero_optimization": False}).get(zero + "stage") == 0


def test_a_key_twice_is_refused(tmp_path):
    refused(
        {"zero_optimization.stage": 3, "zero_optimization": {"stage": 2}},
        "zero_optimization.stage", "given twice",
    )  # fmt: skip
    twice = tmp_path / "twice.json"
    twice.write_text('{"train_batch_size": 1, "train_batch_size": 2}')
    refused(str(twice), "train_batch_size", "given twice")


def test_a_config_is_a_file_a_dictionary_or_base64(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"train_batch_size": 6}))
    encoded = base64.urlsafe_b64encode(path.read_bytes()).decode()
    for config in (path, str(path), encoded, {"train_batch_size": 6}):
        sources = Sources(torch.nn.Linear(2, 2))
        assert parse(config, 3, sources).batch == batch_of(6, None, None, 3)
    refused(str(tmp_path / "none.json"), "config", "No such file")
    path.write_text("{")
    refused(str(path), "config", "JSON")
    path.write_text("[]")
    refused(str(path), "config", "one JSON object")
    refused(7, "config", "a path or a dictionary")
    refused({"zero_optimization": 3}, "zero_optimization", "an object")
    refused({1: 2}, "config", "the key 1")


@pytest.mark.parametrize(
    ("train", "micro", "steps", "expected"),
    [
        (24, 4, 2, (24, 4, 2)), (24, 4, None, (24, 4, 2)), (24, None, 2, (24, 4, 2)),
        (None, 4, 2, (24, 4, 2)), (24, None, None, (24, 8, 1)), (None, 8, None, (24, 8, 1)),
    ],
)  # fmt: skip
def test_two_batch_sizes_give_the_third(train, micro, steps, expected):
    batch = batch_of(train, micro, steps, world=3)
    assert (batch.train, batch.micro, batch.accumulation) == expected


@pytest.mark.parametrize(
    ("train", "micro", "steps", "says"),
    [
        (25, 4, 2, "train_batch_size: '25' is not allowed; allowed: 24"),
        (25, 4, None, "a multiple of 12, which is train_micro_batch_size_per_gpu 4 * 3 ranks"),
        (25, None, 2, "a multiple of 6, which is gradient_accumulation_steps 2 * 3 ranks"),
        (2, None, None, "a multiple of 3"),
        (None, None, 2, "train_batch_size, train_micro_batch_size_per_gpu: 'neither'"),
    ],
)
def test_batch_sizes_that_do_not_fit_are_named(train, micro, steps, says):
    with pytest.raises(shardlight.UserError) as caught:
        batch_of(train, micro, steps, world=3)
    assert says in str(caught.value)


def test_auto_is_what_the_script_tells():
    zero = {"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto", "contiguous_gradients": "auto"}
    config = {
        "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto", "hysteresis": "auto"},
        "zero_optimization": zero,
    }  # fmt: skip
    model = torch.nn.Linear(2, 2).to(torch.bfloat16)
    model.config = SimpleNamespace(hidden_size=100)
    parsed = read(
        config, 3, model,
        per_device_train_batch_size=4, gradient_accumulation_steps=2, max_grad_norm=0.5,
    )  # fmt: skip
    assert parsed.batch == batch_of(24, 4, 2, 3)
    assert parsed.get("gradient_clipping") == 0.5
    assert (parsed.get("bf16.enabled"), parsed.get("fp16.enabled")) == (True, False)
    assert "fp16.hysteresis" not in parsed.given
    assert parsed.get("zero_optimization.reduce_bucket_size") == 10_000
    assert parsed.get("zero_optimization.stage3_prefetch_bucket_size") == 9_000
    assert parsed.get("zero_optimization.stage3_param_persistence_threshold") == 1_000
    assert "gradient_clipping: auto is 0.5" in parsed.notes
    assert read({"fp16": {"enabled": "auto"}}, fp16=True).get("fp16.enabled") is True


@pytest.mark.parametrize("left_out", [(), ("micro",), ("steps",), ("micro", "steps")])
def test_auto_batch_sizes_are_those_of_training_arguments(tmp_path, left_out):
    transformers = pytest.importorskip("transformers")
    args = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, gradient_accumulation_steps=2,
        use_cpu=True, report_to="none",
    )  # fmt: skip
    assert args.train_batch_size == 4, "it is of one process, without accumulation"
    config = {"train_batch_size": "auto", "gradient_clipping": "auto"}
    for short, path in (("micro", MICRO), ("steps", STEPS)):
        if short not in left_out:
            config[path] = "auto"
    parsed = parse(config, 3, Sources(torch.nn.Linear(2, 2), args))
    assert parsed.batch == batch_of(24, 4, 2, 3)
    assert parsed.get("gradient_clipping") == args.max_grad_norm
    config[MICRO] = 5
    assert parse(config, 3, Sources(torch.nn.Linear(2, 2), args)).batch == batch_of(30, 5, 2, 3)


@pytest.mark.parametrize(
    "path", ["gradient_clipping", "zero_optimization.reduce_bucket_size", "zero_optimization.stage"]
)
def test_auto_that_nothing_tells_is_asked_for(path):
    refused(nested(path, "auto"), path, "'auto' is not allowed", "a value")


def test_a_section_that_is_off_needs_no_notes():
    some = {"enabled": False, "hysteresis": 2, "loss_scale_window": 7, "min_loss_scale": "auto"}
    assert read({"fp16": some}).notes == []
    assert len(read({"fp16": {**some, "enabled": True}}).notes) == 3


def test_precisions_that_do_not_fit_are_named():
    both = {"fp16": {"enabled": True}, "bf16": {"enabled": True}}
    refused(both, "fp16.enabled, bf16.enabled", "one of them")
    refused({"data_types": {"param_dtype": "bf16"}}, "data_types.param_dtype", "fp32")
    refused({"fp16": {"enabled": True, "loss_scale": 100}}, "fp16.loss_scale", "power of two")
    refused({"fp16": {"initial_scale_power": 101}}, "fp16.initial_scale_power", "0 to 100")


def choices(config, model=None, ranks="auto"):
    parsed = read(config)
    return _choices.choices_of(parsed, model or torch.nn.Linear(2, 2), ranks), parsed


def test_a_config_is_choices_of_the_engine(monkeypatch):
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    zero = {"stage": 3, "overlap_comm": True, "reduce_bucket_size": 100,
            "prefetch_bucket_size": 50, "max_live_parameters": 1000}
    made, _ = choices({"gradient_accumulation_steps": 4, "zero_optimization": zero})
    assert made == {
        "stage": 3, "accumulation": 4, "clip_norm": 1.0,
        "bucket_bytes": 400, "prefetch_bytes": 200, "gathered_bytes": 4000,
    }  # fmt: skip
    assert choices({"gradient_clipping": 0})[0] == {"stage": 0, "accumulation": 1}
    scale = {"fp16": {"enabled": True, "initial_scale_power": 4, "loss_scale_window": 7}}
    made, parsed = choices(scale)
    assert (made["loss_scale"], made["loss_scale_growth_interval"]) == (16.0, 7)
    assert any(note.startswith("fp16.hysteresis: not given") for note in parsed.notes)
    static = choices({"fp16": {"enabled": True, "loss_scale": 8}})[0]
    assert (static["loss_scale"], static["loss_scale_growth_interval"]) == (8.0, 1 << 62)


def test_lanes_are_noted_where_they_cannot_be():
    made, parsed = choices({"zero_optimization": {"overlap_comm": True}}, ranks="c10d")
    assert "bucket_bytes" not in made
    assert any("overlap_comm: off" in note for note in parsed.notes)


def test_offloading_is_refused_where_it_would_do_something():
    for block in ("offload_optimizer", "offload_param"):
        path = f"zero_optimization.{block}.device"
        choices(nested(path, "cpu"))
        meta = torch.nn.Linear(2, 2, device="meta")
        for device, model in (("nvme", None), ("cpu", meta)):
            with pytest.raises(shardlight.UserError) as caught:
                choices(nested(path, device), model)
            assert caught.value.field == path
