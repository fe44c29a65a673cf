"""`crystalrl doctor`: what is installed, which backends and devices are used, and a self-test of a few seconds."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crystalrl._version import __version__
from crystalrl.backends import backend_for
from crystalrl.memory import CrystalMemory, PrioritizedMemory, ReservoirMemory, UniformMemory, load_memory
from crystalrl.memory.base import ReplayMemory
from crystalrl.packages import installed
from crystalrl.types import Batch, Evaluation, Transition

KINDS = (UniformMemory, PrioritizedMemory, ReservoirMemory, CrystalMemory)
SLOTS, ADDED, BATCH = 256, 600, 32
"""Size of the memories in the self-test, experiences that each receives, and draws."""
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*;.*extra == ['\"]([\w-]+)['\"]")


def show_doctor(console: Console | None = None) -> None:
    """Print the state of this installation and test it; SystemExit(1) if a test fails."""
    console = console or Console()
    for name, value in (*_versions(), *_devices()):
        console.print(f"{name:10} {escape(value)}", highlight=False, soft_wrap=True)
    console.print(_extras_table(extras()))
    failed = [name for name, test in tests() if not _passes(name, test, console)]
    if failed:
        raise SystemExit(1)
    console.print("All tests passed.", highlight=False)


def _versions() -> Iterator[tuple[str, str]]:
    yield "crystalrl", f"{__version__} in {Path(__file__).parents[1]}"
    yield "Python", f"{platform.python_version()} ({sys.executable}), {platform.platform()}"
    yield "PyTorch", f"{torch.__version__}, {torch.get_num_threads()} threads; NumPy {np.__version__}"


def _devices() -> Iterator[tuple[str, str]]:
    """Backends, GPU, cache of compiled code, and settings from the environment."""
    yield "backend", ", ".join(f"{backend_for(device).name} on {device}" for device in devices())
    yield "GPU", torch.cuda.get_device_name() if torch.cuda.is_available() else "none that PyTorch can use"
    yield "cache", _cache()
    given = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("CRYSTALRL_")]
    yield "variables", " ".join(given) or "none (CRYSTALRL_BACKEND, CRYSTALRL_WORKERS, CRYSTALRL_DEBUG)"


def _cache() -> str:
    if not installed("numba"):
        return "not needed without numba; pip install 'crystalrl[fast]' speeds up sampling and consolidation"
    from crystalrl.backends.numba_jit import cache_folder

    return cache_folder() or "no writable folder: compiles in every process; set NUMBA_CACHE_DIR"


def devices() -> list[torch.device]:
    """The devices on which memories can be built here."""
    return [torch.device(name) for name in ("cpu", *["cuda"] * torch.cuda.is_available())]


def extras() -> dict[str, dict[str, str]]:
    """Extra → package → installed version, or an empty string."""
    found: dict[str, dict[str, str]] = {}
    for line in metadata.requires("crystalrl") or ():
        match = _REQUIREMENT.match(line)
        if match and match[1] != "crystalrl" and match[2] not in ("all", "dev", "docs"):
            found.setdefault(match[2], {})[match[1]] = _version(match[1])
    return found


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _extras_table(found: dict[str, dict[str, str]]) -> Table:
    table = Table("extra", "installed", "missing")
    for extra, packages in found.items():
        there = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
        missing = ", ".join(name for name, version in packages.items() if not version)
        table.add_row(extra, there, escape(f"{missing}: pip install 'crystalrl[{extra}]'") if missing else "")
    return table


def tests() -> Iterator[tuple[str, Callable[[], None]]]:
    """Name and test; a test raises if something is wrong."""
    for device in devices():
        for kind in KINDS:
            yield f"{kind.__name__} on {device}", partial(check_memory, kind, device)


def _passes(name: str, test: Callable[[], None], console: Console) -> bool:
    started = time.monotonic()
    try:
        test()
    except Exception as error:
        what = escape(f"{name}: {type(error).__name__}: {error}")
        console.print(f"[red]failed[/red] {what}", highlight=False, soft_wrap=True)
        return False
    console.print(f"[green]passed[/green] {name}, {time.monotonic() - started:.1f} s", highlight=False)
    return True


def check_memory(kind: Callable[..., ReplayMemory], device: torch.device) -> None:
    """Store, draw, update, consolidate, save and load: the invariants hold, and the loaded memory draws the same."""
    anchor = {"anchor": {"advantage": (2,)}} if kind is CrystalMemory else {}
    memory = kind(SLOTS, obs=(3,), action=2, seed=0, device=device, **anchor)
    rng = np.random.default_rng(0)
    for step in range(ADDED):
        obs = rng.normal(size=(2, 3)).astype(np.float32)
        memory.add(Transition(obs[0], step % 2, float(obs[0, 0]), obs[1], step % 50 == 49, False))
        if step % 100 == 99:
            batch = memory.sample(BATCH)
            memory.update(batch, batch.reward)
            memory.consolidate(_evaluate)
    memory.check()
    _compare_with_its_file(memory)


def _compare_with_its_file(memory: ReplayMemory) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory.save(f"{folder}/memory.safetensors")
        again = load_memory(f"{folder}/memory.safetensors", device=memory.device)
    if not torch.equal(memory.sample(BATCH).index, again.sample(BATCH).index):
        raise AssertionError("the loaded memory draws other experiences than the saved one")


def _evaluate(batch: Batch) -> Evaluation:
    return Evaluation(batch.reward, {"advantage": torch.stack([batch.reward, -batch.reward], -1)})
