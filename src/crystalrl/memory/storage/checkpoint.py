"""Checkpoint files: safetensors with a JSON header, a version and a checksum over every byte. No pickle.

A file is written in a temporary folder next to it, synced to disk and renamed. At any moment a reader finds
either the complete old file or the complete new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from crystalrl.memory.storage.checks import booleans, refuse
from crystalrl.memory.storage.header import CheckpointError, parse

VERSION = 2
GENERATION = "slot.claims"
"""Name of the slots' generations, int32[L, N]."""
_BLANK = "0" * 64
_CHECKSUM = re.compile(rb'"checksum":"([0-9a-f]{64})"')
_CHUNK = 1 << 22
_ATTEMPTS = 100
"""How many times a file is read again because it was replaced while being read."""


def write(path: str | os.PathLike[str], header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write tensors and a JSON-able header to `path`; the old file is replaced only once everything is on disk."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    target = Path(path)
    metadata = {"crystalrl": str(VERSION), "header": json.dumps(header, sort_keys=True), "checksum": _BLANK}
    _remove_abandoned(target)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.{os.getpid()}.", suffix=".tmp", dir=target.parent))
    temporary = folder / "new"  # safetensors writes files of its own next to it
    try:
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, temporary, metadata)
        _seal(temporary)
        _keep_mode(target, temporary)
        temporary.replace(target)
        _sync_folder(target.parent)
    except SafetensorError as error:
        raise OSError(f"{target}: could not be written ({error}); what was there before is unchanged") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(target: Path) -> None:
    """Remove temporary folders of this target whose process has ended: a killed save leaves one behind."""
    mine = re.compile(rf"\.{re.escape(target.name)}\.(\d+)\.[^.]*\.tmp")
    for path in target.parent.iterdir():
        if (found := mine.fullmatch(path.name)) and not _running(int(found[1])):
            shutil.rmtree(path, ignore_errors=True)


def _running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _seal(path: Path) -> None:
    """Compute the checksum of the file with a blank checksum, put it into the header, and sync to disk."""
    with path.open("r+b") as file:
        digest, place, _ = _digest(path, file)
        if place is None:
            raise CheckpointError(f"{path}: no place for a checksum in the header")
        file.seek(place)
        file.write(digest.encode())
        file.flush()
        os.fsync(file.fileno())


def _keep_mode(target: Path, temporary: Path) -> None:
    """Temporary files are private: give the new file the permissions of the old one, or the default ones."""
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    temporary.chmod(mode)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(path: Path, file: IO[bytes]) -> tuple[str, int | None, str]:
    """SHA-256 of the open file with its checksum blanked, and position and text of the checksum."""
    hasher, kept = hashlib.sha256(), ""
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    file.seek(0)
    if length > os.fstat(file.fileno()).st_size:
        raise CheckpointError(f"{path}: not a crystalrl file, or truncated (its header would be {length} bytes)")
    head = file.read(8 + length)
    found = list(_CHECKSUM.finditer(head))
    place = found[0].start(1) if len(found) == 1 else None
    if place is not None:
        kept = head[place : place + 64].decode()
        head = head[:place] + _BLANK.encode() + head[place + 64 :]
    hasher.update(head)
    while chunk := file.read(_CHUNK):
        hasher.update(chunk)
    return hasher.hexdigest(), place, kept


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file. Its version and every byte are verified first.

    Another process may replace the file meanwhile: then the new one is read instead.
    """
    source = Path(path)
    if source.exists() and not source.is_file():
        raise CheckpointError(f"{source}: wanted a file, got a {'folder' if source.is_dir() else 'device or pipe'}")
    for _ in range(_ATTEMPTS):
        with source.open("rb") as file:
            try:
                found = _verified(source, file)
            except CheckpointError:
                if _names(source, file):
                    raise
            else:
                if _names(source, file):
                    return found
    raise CheckpointError(f"{source}: wanted a file that stays, got one replaced {_ATTEMPTS} times while it was read")


def _names(path: Path, file: IO[bytes]) -> bool:
    """Whether the path still names the open file."""
    now, opened = path.stat(), os.fstat(file.fileno())
    return (now.st_dev, now.st_ino) == (opened.st_dev, opened.st_ino)


def _verified(source: Path, file: IO[bytes]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of the file that the path names, if that is still the open one, whose bytes are verified."""
    from safetensors import SafetensorError, safe_open

    digest, place, kept = _digest(source, file)
    if place is None:
        raise CheckpointError(f"{source}: not a crystalrl file, or damaged (it has no checksum)")
    if kept != digest:
        raise CheckpointError(f"{source}: damaged (the checksum does not match its contents)")
    try:
        with (
            torch.device("cpu"),
            safe_open(source, framework="pt") as opened,
        ):  # old safetensors read to the default one
            metadata = opened.metadata() or {}
            if metadata.get("crystalrl") != str(VERSION):
                raise CheckpointError(f"wanted format {VERSION}, got {metadata.get('crystalrl')}")
            header = parse(metadata.get("header", ""))
            return header, {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    except (SafetensorError, RuntimeError) as error:  # RuntimeError: replaced by a smaller file between two openings
        raise CheckpointError(f"{source}: damaged ({error})") from error
    except CheckpointError as error:
        raise CheckpointError(f"{source}: {error}") from error


def without_draws(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state with generations [L, N]. Earlier versions wrote [L, N, 2]: also the generation of the last draw."""

    def paired(name: str, value: object) -> bool:
        return str(name).endswith(GENERATION) and isinstance(value, Tensor) and value.shape[2:] == (2,)

    return {name: value[..., 0] if paired(name, value) else value for name, value in state.items()}


def checked_tensor(name: str, given: object) -> Tensor:
    """The given tensor; CheckpointError for anything else."""
    if not isinstance(given, Tensor) or given.layout != torch.strided or given.device.type == "meta":
        raise CheckpointError(f"state {name}: wanted a tensor, got {type(given).__name__}")
    return given


def refuse_other(name: str, own: Tensor, given: object) -> None:
    """Raise if a stored tensor does not fit the live one. Files may hold fewer slots of `…slot.…` tensors."""
    given = checked_tensor(name, given)
    wanted, got = list(own.shape), list(given.shape)
    if ".slot." in name and len(got) > 1 and got[1] <= wanted[1]:
        got[1] = wanted[1]
    if wanted != got or own.dtype != given.dtype:
        raise CheckpointError(f"state {name}: wanted {own.dtype} {wanted}, got {given.dtype} {list(given.shape)}")
    if given.dtype == torch.bool:
        refuse(booleans(f"state {name}", given), CheckpointError)
