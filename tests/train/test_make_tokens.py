"""Token files of examples/make_tokens.py: nothing of a text is lost, and models train on them."""

import gzip
import json
import subprocess
import sys
from array import array

import pytest

TEXT = "A naïve tokenizer, “quoted” – and\ttabs.\n" + "the cat sat on the mat. " * 400


@pytest.fixture(scope="module", params=[".u16", ".u32"])
def tokens(request, root, run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    source = folder / "text.txt.gz"
    source.write_bytes(gzip.compress(TEXT.encode()))
    out = folder / f"text{request.param}"
    run(sys.executable, root / "examples/make_tokens.py", "--vocabulary", 300, out, source)
    return out


def test_pieces_of_the_tokens_are_the_text(tokens):
    described = json.loads(tokens.with_name(tokens.name + ".json").read_text())
    numbers = array("H" if tokens.suffix == ".u16" else "I", tokens.read_bytes())
    assert described["vocabulary"] == len(described["pieces"])
    text = "".join(described["pieces"][number] for number in numbers)
    assert text.encode("latin-1").decode() == TEXT
    assert len(numbers) < len(TEXT.encode())


def test_a_model_trains_on_them(tokens, program, run, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "model": {"layers": 1, "heads": 2, "hidden": 16},
                "data": {"files": [str(tokens)], "held_out_sequences": 2},
                "batch": {"micro_batch": 2, "sequence": 16},
                "steps": 2,
                "sample": {"tokens": 20},
            }
        )
    )
    out = run(program, "train", config, "--out", tmp_path)
    described = json.loads(tokens.with_name(tokens.name + ".json").read_text())
    summary = json.loads((tmp_path / "summary.json").read_text())
    vocabulary = next(r for r in summary["config"] if r["path"] == "model.vocabulary")
    assert vocabulary["value"] == described["vocabulary"]
    assert summary["settings"]["sample"].strip()
    assert "The model writes:" in out


def test_names_that_say_no_width_are_refused(root, tmp_path):
    command = [sys.executable, root / "examples/make_tokens.py", tmp_path / "x.bin", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "x.bin' is not allowed; allowed: a name in .u16 or .u32" in done.stderr
