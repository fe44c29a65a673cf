"""Memory files taken apart and put together again, damaged or with a checksum that fits."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from typing import Any

CHECKSUM = re.compile(rb'"checksum":"([0-9a-f]{64})"')
WIDTH = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F32": 4, "F64": 8}
"""Bytes of an element, by the name of its dtype in the file."""
ODD_WORDS = {
    "F32": ["0000c07f", "0000807f", "000080ff", "000080bf", "00000000", "ffff7f7f", "00000080", "01000000"],
    "F64": ["000000000000f87f", "000000000000f07f", "000000000000f0bf", "0000000000000000", "ffffffffffffef7f"],
    "I64": ["ffffffffffffffff", "ffffffffffffff7f", "0000000000000080", "0000000000000000", "00ca9a3b00000000"],
    "I32": ["ffffffff", "ffffff7f", "00000080", "00000000", "00ca9a3b"],
    "U8": ["ff", "00", "04", "07", "80"],
    "BOOL": ["00", "01", "02", "ff"],
}
"""Little-endian NaN, infinities, −1, 0, the largest and the smallest values."""
ODD_VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 10**8, 10**9, 10**30, -(10**30), 0.5, 1e308, -1e308, math.nan, math.inf, "", "x",
    "nan", "meta", [], {}, [0], [-1], [10**9], [10**5, 10**5], ["x"], [[]], {"a": 1}, {"": []},
]  # fmt: skip


def damaged(original: bytes, rng: random.Random) -> bytes:
    """A copy with flipped bits, a missing end, or blocks that were exchanged, overwritten, inserted or removed."""
    while True:
        data = bytearray(original)
        how = rng.choice(["flip", "flip in the header", "truncate", "swap", "zero", "noise", "insert", "remove"])
        at, length = rng.randrange(len(data)), rng.choice([1, 8, 64, 512, 4096])
        part = slice(at, at + length)
        if how == "flip":
            for _ in range(rng.choice([1, 1, 2, 16])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif how == "flip in the header":
            data[rng.randrange(2_000)] ^= 1 << rng.randrange(8)
        elif how == "truncate":
            del data[at:]
        elif how == "swap":
            other = rng.randrange(len(data))
            data[part], data[other : other + length] = data[other : other + length], data[part]
        elif how == "insert":
            data[at:at] = rng.randbytes(length)
        else:
            data[part] = {"zero": bytes(length), "noise": rng.randbytes(length), "remove": b""}[how]
        if bytes(data) != original:
            return bytes(data)


def resealed(data: bytes) -> bytes:
    """The same file with a checksum that fits."""
    blank = CHECKSUM.sub(b'"checksum":"' + b"0" * 64 + b'"', data)
    digest = hashlib.sha256(blank).hexdigest().encode()
    return CHECKSUM.sub(b'"checksum":"' + digest + b'"', blank)


def taken_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Index with metadata, and the tensors' bytes."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def put_together(index: dict[str, Any], content: bytes) -> bytes:
    head = json.dumps(index, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return resealed(len(head).to_bytes(8, "little") + head + content)


def tampered(original: bytes, rng: random.Random) -> tuple[str, bytes]:
    """A copy with one to three changes, and a checksum that fits; with a description."""
    while True:
        index, content = taken_apart(original)
        changes = [rng.choice(CHANGES) for _ in range(rng.choice([1, 1, 2, 3]))]
        said = []
        for change in changes:
            what, content = change(index, content, rng)
            said.append(what)
        data = put_together(index, content)
        if data != original:
            return "; ".join(said), data


def _value(index: dict[str, Any], content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Some elements of a tensor."""
    name, entry = rng.choice([(name, entry) for name, entry in index.items() if name != "__metadata__"])
    (start, end), kind = entry["data_offsets"], entry["dtype"]
    width, data = WIDTH[kind], bytearray(content)
    if start == end:
        return "nothing", content
    word = rng.choice([bytes.fromhex(rng.choice(ODD_WORDS.get(kind, ["00"]))), rng.randbytes(width)])
    for _ in range(rng.choice([1, 1, 8])):
        at = start + width * rng.randrange((end - start) // width)
        data[at : at + width] = word
    return f"{name} ({kind}) := {word.hex()}", bytes(data)


def _whole(index: dict[str, Any], content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """All elements of a tensor."""
    name, entry = rng.choice([(name, entry) for name, entry in index.items() if name != "__metadata__"])
    (start, end), kind = entry["data_offsets"], entry["dtype"]
    word = bytes.fromhex(rng.choice(ODD_WORDS.get(kind, ["00"])))
    new = (word * ((end - start) // len(word) + 1))[: end - start]
    return f"all of {name} ({kind}) := {word.hex()}", content[:start] + new + content[end:]


def _header(index: dict[str, Any], content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """An entry of the header."""
    header = json.loads(index["__metadata__"]["header"])
    at, key, said = header, rng.choice(list(header)), []
    while isinstance(at[key], dict) and at[key] and rng.random() < 0.85:
        said.append(key)
        at, key = at[key], rng.choice(list(at[key]))
    how = rng.choice(["set", "set", "set", "delete", "add", "deep", "scale"])
    old = at[key]
    if how == "delete":
        del at[key]
    elif how == "add":
        at[rng.choice(["extra", "seed", "device", "lanes", "capacity"])] = rng.choice(ODD_VALUES)
    elif how == "deep":
        at[key] = json.loads("[" * 900 + "]" * 900)
    elif how == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
        at[key] = old * rng.choice([-1, 0, 2, 10, 10**6])
    else:
        at[key] = rng.choice(ODD_VALUES)
    index["__metadata__"]["header"] = json.dumps(header, sort_keys=True)
    return f"header {'.'.join([*said, key])}: {how} {str(at.get(key))[:40]}", content


def _index(index: dict[str, Any], content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """The list of tensors: names, dtypes, shapes."""
    names = [name for name in index if name != "__metadata__"]
    one, other = rng.choice(names), rng.choice(names)
    how = rng.choice(["exchange", "rename", "dtype", "shape", "extra"])
    if how == "exchange":
        index[one], index[other] = index[other], index[one]
    elif how == "rename":
        index[one + "x"] = index.pop(one)
    elif how == "dtype":
        same = [kind for kind, width in WIDTH.items() if width == WIDTH[index[one]["dtype"]]]
        index[one]["dtype"] = rng.choice(same)
    elif how == "shape":
        shape = index[one]["shape"]
        index[one]["shape"] = rng.choice([shape[::-1], [math.prod(shape)], [*shape, 1], [1, *shape]])
    else:
        index["extra"] = {"dtype": "F32", "shape": [0], "data_offsets": [len(content), len(content)]}
    return f"index: {how} {one}", content


CHANGES = (_value, _value, _value, _whole, _header, _header, _header, _index)
