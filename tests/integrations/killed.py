"""Small programs that learn through each library until they are killed; `python -m tests.integrations.killed NAME DIR`.

Each saves its buffer, prints the batches that it draws next, and continues to learn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
FILE = "memory.safetensors"


class Program(NamedTuple):
    save: Callable[[], object]
    draw: Callable[[], list[Any]]
    """Slots, weights and observations of a batch."""
    learn: Callable[[], object]


def torchrl(folder: Path, load: bool) -> Program:
    from tests.integrations.torchrl_models import data, make, trained

    loss, sampler, buffer = make("SAC") if load else trained("SAC")
    if load:
        buffer.loads(folder / "buffer")

    def draw() -> list[Any]:
        batch = buffer.sample()
        return [batch["index"].tolist(), batch["memory", "weight"].tolist(), batch["observation"].tolist()]

    def learn() -> None:
        buffer.extend(data("SAC", 50, 9))
        sum(loss(buffer.sample()).values()).backward()
        sampler.consolidate()

    return Program(lambda: buffer.dumps(folder / "buffer"), draw, learn)


def tianshou(folder: Path, load: bool) -> Program:
    from tests.integrations.tianshou_models import make, step, train, trained

    made, buffer = make("SAC") if load else trained("SAC")
    if load:
        buffer.load(folder / FILE)

    def draw() -> list[Any]:
        samples, slots = buffer.sample(32)
        return [slots.tolist(), samples.weight.tolist(), samples.obs.tolist()]

    rng = np.random.default_rng(1)
    return Program(
        lambda: buffer.save(folder / FILE), draw, lambda: train(made, buffer, [step("SAC", rng) for _ in range(20)])
    )


def cleanrl(folder: Path, load: bool) -> Program:
    from crystalrl import CrystalParams, Transition, load_memory
    from tests.integrations.twins import QUICK

    sys.path.append(str(ROOT / "examples"))
    import cleanrl_dqn

    args = cleanrl_dqn.Args(capacity=400, batch_size=32)
    agent, rng = cleanrl_dqn.Agent(args, 4, 2), np.random.default_rng(0)
    memory = cleanrl_dqn.make_memory(args, 4, 2, CrystalParams.anchored(**QUICK))

    def learn() -> None:
        for _ in range(20):
            obs, after = rng.normal(size=(2, args.envs, 4)).astype(np.float32)
            ends = rng.random((2, args.envs)) < 0.1
            memory.add(Transition(obs, rng.integers(2, size=args.envs), rng.normal(size=args.envs), after, *ends))
            agent.update(memory)
            if memory.due:
                memory.consolidate(agent.evaluate)

    if load:
        memory = load_memory(folder / FILE)
    else:
        for _ in range(10):
            learn()
    return Program(lambda: memory.save(folder / FILE), lambda: _drawn(memory), learn)


def minari(folder: Path, load: bool) -> Program:
    from crystalrl import load_memory
    from crystalrl.integrations.minari import memory_of
    from tests.integrations.test_minari import evaluate, record

    memory = load_memory(folder / FILE) if load else memory_of(record())

    def learn() -> None:
        memory.update(memory.sample(32), torch.rand(32))
        memory.consolidate(evaluate)

    if not load:
        learn()
    return Program(lambda: memory.save(folder / FILE), lambda: _drawn(memory), learn)


def _drawn(memory: Any) -> list[Any]:
    batch = memory.sample(32)
    return [batch.index.tolist(), batch.weight.tolist(), batch.obs.tolist()]


PROGRAMS: dict[str, Callable[[Path, bool], Program]] = {
    "torchrl": torchrl,
    "tianshou": tianshou,
    "cleanrl": cleanrl,
    "minari": minari,
}


def import_tianshou_uncompiled() -> None:
    """Tianshou compiles its functions in every new process, for six seconds; interpreted, they give the same."""
    import numba

    numba.config.DISABLE_JIT = True
    import tianshou.algorithm
    import tianshou.data  # noqa: F401

    numba.config.DISABLE_JIT = False


def main(name: str, folder: str) -> None:
    if name == "tianshou":
        import_tianshou_uncompiled()
    program = PROGRAMS[name](Path(folder), False)
    program.save()
    print(json.dumps([program.draw() for _ in range(3)]), flush=True)
    for k in count():
        program.learn()
        print(f"learnt {k}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
