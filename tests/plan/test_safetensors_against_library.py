"""The parameter tables that shardlight::plan reads from safetensors files, against the library's.

Files that the library wrote are read back as what they were made of. Headers made by hand, good and
bad, are taken or refused as the library takes or refuses them.
"""

import json
import random
import struct
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint64,
    torch.uint32,
    torch.uint16,
    torch.uint8,
    torch.bool,
]


def random_tensors(numbers: random.Random) -> dict[str, torch.Tensor]:
    return {
        f"{numbers.choice(['a.weight', 'ü', 'x y', 'layer.0'])}.{i}": torch.zeros(
            [numbers.choice([0, 1, 2, 3, 7]) for _ in range(numbers.randint(0, 3))],
            dtype=numbers.choice(DTYPES),
        )
        for i in range(numbers.randint(0, 12))
    }


def check_safetensors(dump, path: Path, tensors: dict[str, torch.Tensor]) -> None:
    first, rows = dump("safetensors", path)
    ours = {row["name"]: (row["shape"], row["dtype"]) for row in rows}
    assert len(ours) == len(rows)
    assert ours == {
        name: (list(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in tensors.items()
        if tensor.is_floating_point()  # integers and flags are buffers
    }
    floating = [tensor for tensor in tensors.values() if tensor.is_floating_point()]
    assert first["parameters"] == sum(tensor.numel() for tensor in floating)
    assert "shape" not in first
    header = json.loads(read_header(path))
    offsets = [header[row["name"]]["data_offsets"] for row in rows]
    assert offsets == sorted(offsets)


def read_header(path: Path) -> bytes:
    data = path.read_bytes()
    return data[8 : 8 + struct.unpack("<Q", data[:8])[0]]


def test_safetensors_files(dump, tmp_path, tier):
    numbers = random.Random(7)
    path = tmp_path / "model.safetensors"
    everything = {str(dtype): torch.zeros(3, 2, dtype=dtype) for dtype in DTYPES}
    cases = [everything, {}, {"scalar": torch.tensor(1.0), "empty": torch.zeros(0, 4)}]
    cases += [random_tensors(numbers) for _ in range({"quick": 40, "full": 400}[tier])]
    for tensors in cases:
        metadata = numbers.choice([None, {"format": "pt", "note": 'a "quoted" ü'}])
        save_file(tensors, path, metadata=metadata)
        check_safetensors(dump, path, tensors)


ENTRY = {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}
# The bytes of a header, and those of the data after it.
HEADERS = {
    "good": (json.dumps({"a": ENTRY}), 4),
    "padded": (json.dumps({"a": ENTRY}) + "   ", 4),
    "unknown key": (json.dumps({"a": ENTRY | {"more": 1}}), 4),
    "no tensors": ("{}", 0),
    "trailing data": (json.dumps({"a": ENTRY}), 5),
    "missing data": (json.dumps({"a": ENTRY}), 3),
    "not JSON": ('{"a": ', 0),
    "a list": ("[]", 0),
    "byte order mark": ("\ufeff{}", 0),
    "trailing text": ("{} x", 0),
    "trailing NUL": ("{}\0", 0),
    "metadata of numbers": (json.dumps({"__metadata__": {"a": 1}}), 0),
    "metadata as a list": (json.dumps({"__metadata__": []}), 0),
    "no dtype": (json.dumps({"a": {"shape": [4], "data_offsets": [0, 4]}}), 4),
    "no shape": (json.dumps({"a": {"dtype": "U8", "data_offsets": [0, 4]}}), 4),
    "no offsets": (json.dumps({"a": {"dtype": "U8", "shape": [4]}}), 4),
    "lower-case dtype": (json.dumps({"a": ENTRY | {"dtype": "u8"}}), 4),
    "negative size": (json.dumps({"a": ENTRY | {"shape": [-4]}}), 4),
    "float size": (json.dumps({"a": ENTRY | {"shape": [4.0]}}), 4),
    "huge size": (json.dumps({"a": ENTRY | {"shape": [2**40, 2**40]}}), 4),
    "size beyond 64 bits": (json.dumps({"a": ENTRY | {"shape": [2**64]}}), 4),
    "three offsets": (json.dumps({"a": ENTRY | {"data_offsets": [0, 4, 4]}}), 4),
    "offsets backwards": (json.dumps({"a": ENTRY | {"data_offsets": [4, 0]}}), 4),
    "offsets of another size": (json.dumps({"a": ENTRY | {"data_offsets": [0, 3]}}), 3),
    "hole at the start": (json.dumps({"a": ENTRY | {"data_offsets": [1, 5]}}), 5),
    "hole": (json.dumps({"a": ENTRY, "b": ENTRY | {"data_offsets": [5, 9]}}), 9),
    "overlap": (json.dumps({"a": ENTRY, "b": ENTRY | {"data_offsets": [3, 7]}}), 7),
    "the same data twice": (json.dumps({"a": ENTRY, "b": ENTRY}), 4),
    "nested 200 deep": ('{"a":' + "[" * 200 + "]" * 200 + "}", 0),
    "entry of a number": ('{"a": 1}', 0),
}
# What the format's description forbids and the library lets pass; we do not.
FORBIDDEN = {
    "leading space": (" {}", 0),
    "a tensor twice": (json.dumps({"a": ENTRY})[:-1] + "," + json.dumps({"a": ENTRY})[1:], 4),
}


def write_safetensors(folder: Path, header: str, data: int) -> Path:
    path = folder / "model.safetensors"
    encoded = header.encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(data))
    return path


@pytest.mark.parametrize("case", FORBIDDEN)
def test_safetensors_headers_follow_the_description(dump, tmp_path, case):
    assert isinstance(dump("safetensors", write_safetensors(tmp_path, *FORBIDDEN[case])), str)


@pytest.mark.parametrize("case", HEADERS)
def test_safetensors_headers_are_judged_as_the_library_does(dump, tmp_path, case):
    path = write_safetensors(tmp_path, *HEADERS[case])
    ours = dump("safetensors", path)
    try:
        with safe_open(path, "pt") as file:
            theirs = set(file.keys())
    except SafetensorError:
        assert isinstance(ours, str)
    else:
        assert {row["name"] for row in ours[1]} == theirs


@pytest.mark.parametrize("length", [0, 3, 2**31, 100_000_001, 2**64 - 1])
def test_header_lengths_are_judged_as_the_library_does(dump, tmp_path, length):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    assert isinstance(dump("safetensors", path), str)
    with pytest.raises(SafetensorError), safe_open(path, "pt"):
        pass
