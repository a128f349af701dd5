"""A rank's part of test_trainer.py: tries what is refused, then trains a small Llama by Trainer and
by transformers' own, and in a loop of Accelerate. Words: stages of the plain run, of the rich one
and of the loop, and a folder, as in 123 03 2 /tmp/x. Rank 0 prints what each run logged, and each
refusal, as JSON."""

import json
import os
import sys
from pathlib import Path

import accelerate
import models
import torch
import train_accelerate
import transformers as hf
from accelerate.utils import DDPCommunicationHookType, DistributedDataParallelKwargs
from safetensors.torch import load_file
from shardlight import UserError
from shardlight.accelerate import Accelerator
from shardlight.transformers import Trainer
from twins import expect_same_state

# Of what is logged, what two runs cannot have in common: times.
TIMED = ("runtime", "per_second", "preparation_time")
PLAIN = {"max_grad_norm": 0.0, "max_steps": 4}
# 5 batches a rank are an epoch: two steps of 2 micro-batches and one of 1.
RICH = {
    "gradient_accumulation_steps": 2,
    "max_grad_norm": 0.1,
    "max_steps": 4,
    "label_smoothing_factor": 0.1,
    "lr_scheduler_type": "cosine",
    "warmup_steps": 1,
    "activation_checkpointing": True,
    "bf16": True,
}
# DistributedDataParallel adds a rank's micro-steps first, too.
CHOICES = {"unit_bytes": 16 << 10, "reduce": "once"}


class Rows(torch.utils.data.Dataset):
    """Rows that count up by 1, 2 or 3, of different lengths, padded."""

    def __init__(self, count: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        first = torch.randint(0, models.VOCABULARY, (count, 1), generator=draw)
        stride = torch.randint(1, 4, (count, 1), generator=draw)
        self.tokens = 3 + (first + stride * torch.arange(models.LENGTH)) % (models.VOCABULARY - 3)
        self.lengths = torch.randint(4, models.LENGTH, (count,), generator=draw)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        used = torch.arange(models.LENGTH) < self.lengths[index]
        tokens = self.tokens[index].masked_fill(~used, 0)
        return {
            "input_ids": tokens,
            "attention_mask": used.long(),
            "labels": tokens.masked_fill(~used, -100),
        }


def llama():
    torch.manual_seed(7)
    return hf.LlamaForCausalLM(hf.LlamaConfig(**models.SMALL))


def arguments(**changes) -> hf.TrainingArguments:
    settings = {
        "output_dir": sys.argv[4],
        "save_strategy": "no",
        "eval_strategy": "steps",
        "eval_steps": 2,
        "logging_steps": 1,
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 2,
        "learning_rate": 1e-2,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return hf.TrainingArguments(**{**settings, **changes})


def history(trainer) -> list[dict]:
    """What was logged, without times; then an evaluation and the sum of predicted logits."""
    logged = [*trainer.state.log_history, trainer.evaluate()]
    predicted = trainer.predict(trainer.eval_dataset)
    kept = [
        {key: value for key, value in entry.items() if not key.endswith(TIMED)} for entry in logged
    ]
    return [*kept, {"predicted": float(predicted.predictions.sum(dtype="f8"))}]


def trained(kind, changes: dict, **choices):
    trainer = kind(
        llama(),
        arguments(**changes),
        train_dataset=Rows(20, seed=1),
        eval_dataset=Rows(7, seed=2),
        callbacks=[],
        **choices,
    )
    trainer.remove_callback(hf.PrinterCallback)
    trainer.train()
    return trainer, history(trainer)


def saved_and_read(trainer) -> None:
    """save_model() writes what the engine has, and training goes on after it."""
    expected = trainer.engine.state_dict()
    folder = Path(trainer.args.output_dir, "saved")
    trainer.save_model(str(folder))
    trainer.accelerator.wait_for_everyone()
    expect_same_state(expected, hf.LlamaForCausalLM.from_pretrained(folder), "what was saved")
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before


def show(*line) -> None:
    if os.environ["RANK"] == "0":
        print(json.dumps(line), flush=True)


def runs(stages_plain: str, stages_rich: str) -> None:
    for name, changes, stages in (("plain", PLAIN, stages_plain), ("rich", RICH, stages_rich)):
        show("run", name, "DDP", trained(hf.Trainer, changes)[1])
        for stage in stages:
            trainer, logged = trained(Trainer, changes, stage=int(stage), **CHOICES)
            if (name, stage) == ("plain", "3"):
                saved_and_read(trainer)
            trainer.engine.close()
            show("run", name, stage, logged)


def accelerated(stages: str) -> None:
    settings = {"cpu": True, "gradient_accumulation_steps": 2}
    rows = Rows(20, seed=1)
    theirs = accelerate.Accelerator(**settings)
    show("run", "accelerate", "DDP", train_accelerate.loop(theirs, llama(), rows))
    for stage in stages:
        ours = Accelerator(**settings, stage=int(stage), **CHOICES)
        show("run", "accelerate", stage, train_accelerate.loop(ours, llama(), rows))
        saved_by_accelerate(ours)
        ours.engine.close()


def saved_by_accelerate(accelerator) -> None:
    model, folder = accelerator.engine.model, Path(sys.argv[4], "accelerate")
    accelerator.save_model(model, folder)
    accelerator.wait_for_everyone()
    expected = accelerator.engine.state_dict()
    read = llama()
    read.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
    expect_same_state(expected, read, "what Accelerate saved")


def uneven() -> None:
    """Of 9 batches rank 0 has 5, in steps of 2, 2 and 1, and rank 1 has 4."""
    data = accelerate.utils.DataLoaderConfiguration(even_batches=False)
    settings = {"cpu": True, "gradient_accumulation_steps": 2, "dataloader_config": data}
    accelerator = Accelerator(**settings, stage=3, clip_norm=0.5, **CHOICES)
    rows = Rows(18, seed=1)
    steps = train_accelerate.loop(accelerator, llama(), rows, clips=False, epochs=1)
    joined = accelerator.engine.join()
    show("uneven", [len(step["losses"]) for step in steps])
    assert joined == accelerator.process_index
    accelerator.engine.close()


def refusals() -> None:
    data = {"train_dataset": Rows(4, seed=1), "eval_dataset": Rows(4, seed=2)}

    def refused(what, call) -> None:
        try:
            call()
        except UserError as error:
            show("refused", what, error.field, error.allowed)

    for changes in (
        {"save_strategy": "steps"},
        {"bf16_full_eval": True},
        {"torch_compile": True},
        {"auto_find_batch_size": True},
        {"ddp_broadcast_buffers": True},
        {"optim": "adafactor"},
        {"accelerator_config": {"even_batches": False}},
    ):
        refused(changes, lambda: Trainer(llama(), arguments(**changes), **data))
    for choices in ({"accumulation": 2}, {"clip_norm": 1.0}, {"stage": 7}):
        refused(choices, lambda: Trainer(llama(), arguments(), **data, **choices).train())
    trainer = Trainer(llama(), arguments(), **data)
    refused("engine", lambda: trainer.engine)
    refused("resume", lambda: trainer.train(resume_from_checkpoint=True))
    refused("search", trainer.hyperparameter_search)
    accelerator = Accelerator(cpu=True)
    alone = torch.optim.SGD(llama().parameters(), lr=1.0)
    refused("optimizer alone", lambda: accelerator.prepare(alone))
    refused("save_state", accelerator.save_state)
    hook = DistributedDataParallelKwargs(comm_hook=DDPCommunicationHookType.FP16)
    refused("comm_hook", lambda: Accelerator(cpu=True, kwargs_handlers=[hook]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    refusals()
    runs(*sys.argv[1:3])
    accelerated(sys.argv[3])
    uneven()
