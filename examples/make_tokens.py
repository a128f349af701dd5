#!/usr/bin/env python3
"""Makes a token file for `shardlight train --data` of text files, with Hugging Face's tokenizers.

    .venv/bin/python examples/make_tokens.py --vocabulary 4096 \\
        jargon.u16 /usr/share/doc/jargon-text/jargon.txt.gz
    shardlight train examples/gpt.json --data jargon.u16

A byte-level BPE is trained on the texts (gzipped or not), or read with --tokenizer. Beside the
tokens, raw little-endian uint16 or uint32 by the name's ending, stand jargon.u16.json, which says
what they are and which bytes each stands for, and jargon.u16.tokenizer.json, which
`tokenizers` reads again.
"""

import argparse
import gzip
import json
import sys
from array import array
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

WIDTHS = {".u16": ("uint16", "H", 1 << 16), ".u32": ("uint32", "I", 1 << 24)}


def byte_alphabet() -> dict[str, int]:
    """Which byte each character of a byte-level token stands for: GPT-2's table, which leaves
    printable bytes as they are and numbers the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def trained(texts: Iterable[str], vocabulary: int, special: Iterable[str] = ()) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(special),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """The bytes of each token, as characters up to U+00FF."""
    alphabet = byte_alphabet()
    tokens = (tokenizer.id_to_token(number) for number in range(tokenizer.get_vocab_size()))
    # A special token is no text of the alphabet; it stands for itself.
    return [
        "".join(chr(alphabet[c]) for c in token)
        if all(c in alphabet for c in token)
        else token.encode().decode("latin-1")
        for token in tokens
    ]


def read(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def write(out: Path, tokenizer: Tokenizer, texts: list[str]) -> int:
    """Writes the three files; how many tokens there are."""
    dtype, code, _ = WIDTHS[out.suffix]
    tokens = array(code)
    for text in texts:
        tokens.extend(tokenizer.encode(text).ids)
    if sys.byteorder == "big":
        tokens.byteswap()
    out.write_bytes(tokens.tobytes())
    described = {"dtype": dtype, "vocabulary": tokenizer.get_vocab_size()}
    described["pieces"] = pieces_of(tokenizer)
    Path(f"{out}.json").write_text(json.dumps(described))
    tokenizer.save(f"{out}.tokenizer.json")
    return len(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="to be written; its name ends in .u16 or .u32")
    parser.add_argument("texts", type=Path, nargs="+", help="UTF-8 text, gzipped or not")
    parser.add_argument("--vocabulary", type=int, default=4096, help="tokens to learn; 4096")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json to use instead of learning")
    options = parser.parse_args()
    if options.out.suffix not in WIDTHS:
        parser.error(f"out: '{options.out}' is not allowed; allowed: a name in .u16 or .u32")
    texts = [read(path) for path in options.texts]
    if options.tokenizer:
        tokenizer = Tokenizer.from_file(str(options.tokenizer))
    else:
        tokenizer = trained(texts, options.vocabulary)
    most = WIDTHS[options.out.suffix][2]
    if tokenizer.get_vocab_size() > most:
        parser.error(f"vocabulary: {tokenizer.get_vocab_size()} is not allowed; allowed: {most}")
    count = write(options.out, tokenizer, texts)
    print(f"{options.out}: {count} tokens of a vocabulary of {tokenizer.get_vocab_size()}")


if __name__ == "__main__":
    main()
