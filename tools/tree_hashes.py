"""Hashes of what `tree_probe.py` observes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


class Hashes:
    """Running hashes by name; `marks` are their values at certain steps, so that the first difference can be told."""

    def __init__(self) -> None:
        self.running: dict[str, Any] = {}
        self.marks: dict[str, str] = {}

    def add(self, what: str, parts: Mapping[str, Any]) -> None:
        update(self.running.setdefault(what, hashlib.sha256()), parts)

    def mark(self, step: int) -> None:
        for what, running in self.running.items():
            self.marks[f"{what} until step {step}"] = running.hexdigest()[:16]

    def note(self, prefix: str, parts: Mapping[str, Any]) -> None:
        """A hash for each of the parts."""
        for name, part in parts.items():
            running = hashlib.sha256()
            update(running, {name: part})
            self.marks[f"{prefix} {name}"] = running.hexdigest()[:16]


def update(running: Any, parts: Mapping[str, Any]) -> None:
    """Names, types, shapes and bytes of tensors; numbers and text as Python prints them."""
    import torch

    for name in sorted(parts):
        part = parts[name]
        if isinstance(part, torch.Tensor):
            array = part.detach().cpu().contiguous().numpy()
            running.update(f"{name} {part.dtype} {tuple(part.shape)}".encode())
            running.update(array.tobytes())
        elif isinstance(part, bytes):
            running.update(name.encode() + part)
        else:
            running.update(f"{name} {part!r}".encode())


def batch_parts(batch: Any) -> dict[str, Any]:
    """The fields of a batch by name, nested ones too."""
    parts: dict[str, Any] = {}
    for name in ("obs", "action", "reward", "next_obs", "discount", "weight", "index", "context"):
        value = getattr(batch, name)
        parts |= {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
    for name, anchor in (batch.anchor or {}).items():
        parts |= {f"anchor.{name}.target": anchor.target, f"anchor.{name}.coefficient": anchor.coefficient}
    return parts


def report_parts(report: Any) -> dict[str, Any]:
    """What a consolidation reports, without the seconds, which differ in every run, and without the words of its
    warnings."""
    if report is None:
        return {"report": None}
    return {**report.values, "histogram": report.histogram, "warnings": len(report.warnings)}


def file_parts(content: bytes) -> dict[str, Any]:
    """The contents of a safetensors file, without the order of its metadata, which is random, and their checksum."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = {name: text for name, text in header.pop("__metadata__").items() if name != "checksum"}
    places = json.dumps(header, sort_keys=True)
    return {"file metadata": sorted(metadata.items()), "file places": places, "file data": content[8 + length :]}
