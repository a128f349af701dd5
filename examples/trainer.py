#!/usr/bin/env python3
"""Trains a small Llama by Hugging Face's Trainer at a stage; every TrainingArguments is an option.

    torchrun --nproc-per-node 2 examples/trainer.py --stage 3
    torchrun --nproc-per-node 2 examples/trainer.py --stage 1 --max_steps 200 --bf16 \\
        --gradient_accumulation_steps 2 --lr_scheduler_type cosine --output_dir llama

The text is the Jargon File (Debian's jargon-text), byte for byte.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers as hf
from shardlight.transformers import Trainer

LENGTH = 128  # bytes of an example
HELD_OUT = 32  # examples


@dataclass
class Options:
    stage: int = 3
    text: str = "/usr/share/doc/jargon-text/jargon.txt.gz"
    save: bool = False  # the model, to --output_dir


def examples(path: str) -> tuple[list, list]:
    """To train on and held out: pieces of the text, each token a byte."""
    text = torch.frombuffer(bytearray(gzip.decompress(Path(path).read_bytes())), dtype=torch.uint8)
    pieces = text[: len(text) // LENGTH * LENGTH].view(-1, LENGTH).long()
    rows = [{"input_ids": piece, "labels": piece} for piece in pieces]
    return rows[:-HELD_OUT], rows[-HELD_OUT:]


def llama() -> hf.PreTrainedModel:
    torch.manual_seed(1)
    config = hf.LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
    )
    return hf.LlamaForCausalLM(config)


def main() -> None:
    parser = hf.HfArgumentParser((Options, hf.TrainingArguments))
    parser.set_defaults(
        output_dir="trainer-output",
        max_steps=60,
        learning_rate=3e-3,
        eval_strategy="steps",
        eval_steps=20,
        logging_steps=10,
        save_strategy="no",  # checkpoints come later
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    options, arguments = parser.parse_args_into_dataclasses()
    rows, held_out = examples(options.text)
    trainer = Trainer(
        llama(), arguments, train_dataset=rows, eval_dataset=held_out, stage=options.stage
    )
    trainer.train()
    if trainer.is_world_process_zero():
        print(trainer.engine)
        print(trainer.engine.memory())
    if options.save:
        trainer.save_model()


if __name__ == "__main__":
    main()
