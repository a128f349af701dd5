"""A rank's part of test_sft.py: runs examples/sft.py, small, at stage 2, at stage 0 and from what
the first run saved. Then rank 0 computes the held-out loss of what was saved in another way:
conversation after conversation, without padding or labels, from the logits. Words: EXAMPLE FOLDER
"""

import os
import runpy
import sys
from pathlib import Path

import torch
import transformers as hf

TEXT = Path("/usr/share/doc/jargon-text/jargon.txt.gz")
CONVERSATIONS, LENGTH = 120, 48
SMALL = f"--conversations {CONVERSATIONS} --length {LENGTH} --batch 4 --layers 1 --vocabulary 400"


@torch.no_grad()
def loss_of(model, asked: list[int], tokens: list[int]) -> tuple[float, int]:
    """Sum over the tokens that follow what was asked, and their number."""
    logits = model(torch.tensor([tokens])).logits[0].double().log_softmax(-1)
    answered = range(len(asked), len(tokens))
    return -sum(float(logits[at - 1, tokens[at]]) for at in answered), len(answered)


def compute(chats: list, folder: str) -> None:
    model = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    total = count = 0
    for question, answer in chats:
        prompt = f"<|im_start|>user\n{question['content']}<|im_end|>\n<|im_start|>assistant\n"
        asked = tokenizer.encode(prompt)
        whole = tokenizer.apply_chat_template([question, answer], tokenize=False)
        tokens = tokenizer.encode(whole.removesuffix("\n"))
        assert tokens[: len(asked)] == asked
        loss, answered = loss_of(model, asked, tokens[:LENGTH])
        total, count = total + loss, count + answered
    print(f"computed loss {total / count!r} of {count} tokens")


def main(example: str, folder: str) -> None:
    hf.logging.disable_progress_bar()
    sys.path.insert(0, str(Path(example).parent))  # as Python does for a script
    for name, words in {
        "stage 2": f"--stage 2 --steps 15 --save {folder}",
        "stage 0": "--stage 0 --steps 15",
        "saved": f"--stage 3 --steps 0 --model {folder}",
    }.items():
        if os.environ["RANK"] == "0":
            print(f"run {name}", flush=True)
        sys.argv = [example, *SMALL.split(), *words.split()]
        sft = runpy.run_path(example, run_name="__main__")
    if os.environ["RANK"] == "0":
        compute(sft["conversations"](TEXT, CONVERSATIONS)[: sft["HELD_OUT"]], folder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
