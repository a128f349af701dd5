#!/usr/bin/env python3
"""Fine-tunes all parameters of a Qwen3 model on questions and answers, at stage 2.

    torchrun --nproc-per-node 2 examples/sft.py
    shardlight launch -n 2 -- python examples/sft.py --stage 0

Without --model it is a small one of random weights, with a tokenizer that is learned here; the
conversations are entries of the Jargon File (Debian's jargon-text). Only answers have a loss, each
of their tokens with the same weight, on whatever rank it is. The loss of conversations that were
held out has the same bits at every stage, and its last line shows them all.
"""

import argparse
import random
import re
from pathlib import Path

import shardlight
import torch
import transformers as hf
from make_tokens import read, trained

SPECIAL = {"pad": "<|endoftext|>", "begin": "<|im_start|>", "end": "<|im_end|>"}
CHAT = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IGNORED = -100  # the label of what has no loss
HELD_OUT = 32  # conversations


def conversations(path: Path, most: int) -> list[list[dict[str, str]]]:
    """One of each entry, `   :term: word class`, with its first paragraph as the answer."""
    text = read(path)
    found = re.findall(r"^   :([^:\n]+):[^\n]*\n\n(.+?)\n\n", text, re.MULTILINE | re.DOTALL)
    random.Random(1).shuffle(found)
    return [
        [
            {"role": "user", "content": f"What is “{term}”?"},
            {"role": "assistant", "content": " ".join(answer.split())},
        ]
        for term, answer in found[:most]
    ]


def learned_tokenizer(chats: list, size: int) -> hf.PreTrainedTokenizerFast:
    """Byte-level BPE; the same on all ranks, as they learn from the same texts."""
    texts = (turn["content"] for chat in chats for turn in chat)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=trained(texts, size, SPECIAL.values()),
        pad_token=SPECIAL["pad"],
        eos_token=SPECIAL["end"],
        chat_template=CHAT,
    )


def small_model(tokenizer: hf.PreTrainedTokenizerFast, layers: int) -> hf.PreTrainedModel:
    torch.manual_seed(1)
    config = hf.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    return hf.Qwen3ForCausalLM(config)


def tokenized(tokenizer, chat: list, length: int) -> tuple[list[int], list[int]]:
    """Tokens and labels, cut at `length`: of the prompt none has a loss, of the answer all do, up
    to the token that ends it."""
    prompt = tokenizer.apply_chat_template(chat[:-1], add_generation_prompt=True, tokenize=False)
    asked = tokenizer(prompt, add_special_tokens=False).input_ids
    answer = chat[-1]["content"] + tokenizer.eos_token
    answered = tokenizer(answer, add_special_tokens=False).input_ids
    return (asked + answered)[:length], ([IGNORED] * len(asked) + answered)[:length]


def batch_of(rows: list, pad: int) -> dict[str, torch.Tensor]:
    """Padded at the end to the longest."""
    length = max(len(tokens) for tokens, _ in rows)

    def padded(values: list[int], value: int) -> list[int]:
        return values + [value] * (length - len(values))

    return {
        "input_ids": torch.tensor([padded(tokens, pad) for tokens, _ in rows]),
        "attention_mask": torch.tensor([padded([1] * len(tokens), 0) for tokens, _ in rows]),
        "labels": torch.tensor([padded(labels, IGNORED) for _, labels in rows]),
    }


def answer_tokens(rows: list) -> int:
    """How many tokens have a loss; the first of a row is foretold by nothing."""
    return sum(label != IGNORED for _, labels in rows for label in labels[1:])


@torch.no_grad()
def held_out_loss(model, rows: list, size: int, pad: int) -> float:
    """The mean over all answer tokens. Ranks need not do it together: one is enough."""
    model.eval()
    batches = [batch_of(rows[first : first + size], pad) for first in range(0, len(rows), size)]
    total = sum(model(**batch, num_items_in_batch=1).loss.double() for batch in batches)
    model.train()
    return float(total) / answer_tokens(rows)


def train(engine: shardlight.Engine, rows: list, held_out: list, pad: int, options) -> None:
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(engine.optimizer, max(options.steps, 1))
    order = random.Random(2)
    for step in range(options.steps):
        # All ranks draw the same rows and take their own.
        drawn = order.sample(rows, options.batch * engine.world)
        batch = batch_of(drawn[engine.rank :: engine.world], pad)
        # The engine divides by the ranks; so this is the mean over all answer tokens of the step.
        mine = answer_tokens(drawn) / engine.world
        loss = engine.model(**batch, num_items_in_batch=mine).loss
        engine.backward(loss)
        report = engine.step()
        scheduler.step()
        if engine.rank == 0 and step % 10 == 0:
            held = held_out_loss(engine.model, held_out, options.batch, pad)
            norm = report.gradient_norm
            print(f"step {step:4}  held-out loss {held:.4f}  gradient norm {norm:.2f}", flush=True)


def answer(model, tokenizer, chat: list) -> str:
    text = tokenizer.apply_chat_template(chat[:-1], add_generation_prompt=True, tokenize=False)
    asked = tokenizer(text, add_special_tokens=False, return_tensors="pt")
    settings = {"do_sample": False, "pad_token_id": tokenizer.pad_token_id}
    made = model.generate(
        asked.input_ids, attention_mask=asked.attention_mask, max_new_tokens=24, **settings
    )
    return tokenizer.decode(made[0, asked.input_ids.shape[1] :], skip_special_tokens=True)


def save(engine: shardlight.Engine, tokenizer, folder: Path) -> None:
    """For from_pretrained. The state comes tensor by tensor, on all ranks; one keeps it."""
    state = {name: tensor for name, tensor in engine.full_state() if engine.rank == 0}
    if engine.rank == 0:
        engine.model.save_pretrained(folder, state_dict=state)
        tokenizer.save_pretrained(folder)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stage", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a folder of from_pretrained with a chat format")
    parser.add_argument("--save", type=Path, help="a folder to write, which --model reads again")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=8, help="conversations a rank and step; 8")
    parser.add_argument("--length", type=int, default=64, help="the most tokens of one; 64")
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--layers", type=int, default=2, help="of the small model; 2")
    parser.add_argument("--vocabulary", type=int, default=768, help="of its tokenizer; 768")
    parser.add_argument("--conversations", type=int, default=1500, help="the most to use; 1500")
    parser.add_argument(
        "--text", type=Path, default=Path("/usr/share/doc/jargon-text/jargon.txt.gz")
    )
    return parser.parse_args()


def main() -> None:
    options = parsed()
    chats = conversations(options.text, options.conversations)
    if options.model:
        tokenizer = hf.AutoTokenizer.from_pretrained(options.model)
        model = hf.AutoModelForCausalLM.from_pretrained(options.model)
    else:
        tokenizer = learned_tokenizer(chats[HELD_OUT:], options.vocabulary)
        model = small_model(tokenizer, options.layers)
    rows = [tokenized(tokenizer, chat, options.length) for chat in chats]
    held_out, rows = rows[:HELD_OUT], rows[HELD_OUT:]
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    with shardlight.Engine(model, optimizer, stage=options.stage, clip_norm=1.0) as engine:
        if engine.rank == 0:
            print(f"{engine}\n{len(rows)} conversations, {HELD_OUT} held out", flush=True)
        train(engine, rows, held_out, tokenizer.pad_token_id, options)
        if options.save:
            save(engine, tokenizer, options.save)
        if engine.rank == 0:
            print(f"{chats[0][0]['content']} {answer(model, tokenizer, chats[0])}")
            loss = held_out_loss(model, held_out, options.batch, tokenizer.pad_token_id)
            print(f"held-out loss {loss:.4f}, exactly {loss.hex()}")


if __name__ == "__main__":
    main()
