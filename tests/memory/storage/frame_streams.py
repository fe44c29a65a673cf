"""Environments with stacked frames, for tests: what each step gives, and a memory's random life with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from crystalrl import Batch, Evaluation, Transition
from crystalrl.memory import ReplayMemory
from tests.experience import assert_same_batch, assert_same_value

FRAME = (2, 8)
"""Shape of one frame. Few pixels, so that frames often repeat by chance, and that states are not projected."""

COPIES = ("vicinity.slot.copy.obs", "vicinity.slot.copy.next_obs")
"""Vectors of small states: a memory that stores observations whole reads them from there."""


class Stacks:
    """One environment. Stacks shift by one frame per step; an episode starts with the first frame repeated, or with
    zeros; sometimes an observation is not the next one of the step before."""

    def __init__(self, rng: np.random.Generator, k: int, dtype: Any = np.uint8) -> None:
        self.rng, self.k, self.dtype = rng, k, dtype
        self.shown = np.zeros(FRAME, dtype)
        self.reset()

    def frame(self) -> np.ndarray:
        """The last one with up to two pixels changed, one of noise, or a blank one."""
        how = self.rng.random()
        if how > 0.3:
            self.shown = self.shown.copy()
            self.shown.reshape(-1)[self.rng.integers(self.shown.size, size=2)] = self.rng.integers(0, 3)
        else:
            self.shown = self.rng.integers(0, 1 if how < 0.1 else 200, FRAME).astype(self.dtype)
        return self.shown

    def reset(self) -> None:
        first = self.frame()
        padding = first if self.rng.random() < 0.5 else np.zeros_like(first)
        self.stack = np.stack([padding] * (self.k - 1) + [first])

    def step(self) -> dict[str, Any]:
        obs, shown = self.stack, self.frame()
        if self.rng.random() < 0.05:
            obs = np.stack([self.frame() for _ in range(self.k)])
        self.stack = np.concatenate([obs[1:], shown[None]])
        ends, cut = self.rng.random(2) < 0.07
        step = {"obs": obs, "next_obs": self.stack, "terminated": bool(ends), "truncated": bool(cut)}
        if ends or cut:
            self.reset()
        return step | {"action": int(self.rng.integers(3)), "reward": float(self.rng.normal())}


class Pair:
    """The same memory twice, with frames stored once and with observations stored whole, and their environments."""

    def __init__(self, kind: type[ReplayMemory], seed: int, k: int, dtype: Any = np.uint8, **options: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.lanes, self.envs = options.get("lanes"), options.get("envs", 1)
        stored = getattr(torch, np.dtype(dtype).name)
        shared = {"obs": (k, *FRAME), "obs_dtype": stored, "action": 3, "seed": seed, **options}
        self.once, self.whole = (kind(stack=stack, **shared) for stack in (k, None))
        self.worlds = [Stacks(self.rng, k, dtype) for _ in range((self.lanes or 1) * self.envs)]

    @property
    def lead(self) -> tuple[int, ...]:
        return (self.envs,) if self.lanes is None else (self.lanes, self.envs)

    def both(self, act: Any) -> None:
        """Do the same to both; the results must be the same."""
        one, other = act(self.once), act(self.whole)
        if isinstance(one, Batch):
            assert_same_batch(one, other)
        elif isinstance(one, torch.Tensor):
            assert torch.equal(one, other)

    def add(self) -> None:
        steps = [world.step() for world in self.worlds]
        given = {
            name: np.array([s[name] for s in steps]).reshape(*self.lead, *np.shape(steps[0][name])) for name in steps[0]
        }
        valid = self.rng.random(self.lead) < 0.9 if self.rng.random() < 0.5 else None
        self.both(lambda memory: memory.add(Transition(**given), valid=valid))

    def sample(self) -> None:
        if int(self.once.ledger.count.min()):
            self.both(lambda memory: memory.sample(5))

    def update(self) -> None:
        if int(self.once.ledger.count.min()):
            error = self.rng.normal(size=(5,) if self.lanes is None else (self.lanes, 5))
            self.both(lambda memory: memory.update(memory.sample(5), error))

    def end_episode(self) -> None:
        ended = self.rng.random(self.lead) < 0.5
        self.both(lambda memory: memory.end_episode(ended))

    def consolidate(self) -> None:
        shift = float(self.rng.random())
        self.both(lambda memory: memory.consolidate(lambda batch: judged(batch, shift)) and None)

    def clear(self) -> None:
        if self.rng.random() < 0.3:
            self.both(lambda memory: memory.clear())

    def compare(self) -> None:
        """Everything stored, in all ways of reading it, and everything else in the state."""
        self.once.check()
        one, other = self.once.state_dict(), self.whole.state_dict()
        only = set(one) ^ set(other)
        assert all(name.startswith("frames.") or name in COPIES for name in only), only
        for name in set(one) & set(other) - {"memory.slot.rows"}:
            assert torch.equal(one[name], other[name]), name
        slots = torch.arange(self.once.ledger.used).expand(self.once.lanes, -1)
        occupied = self.whole.sampler.occupied(slots)
        rows, wanted = (memory.arena.read(slots)[occupied] for memory in (self.once, self.whole))
        assert torch.equal(rows, wanted)
        fields, naive = (memory.arena.fields(slots.shape[1]) for memory in (self.once, self.whole))
        for name in ("obs", "next_obs", "action", "reward", "discount"):
            assert_same_value(fields[name][occupied], naive[name][occupied], name)


def judged(batch: Batch, shift: float) -> Evaluation:
    """Some TD error of every experience, and an output for an anchor."""
    assert isinstance(batch.obs, torch.Tensor)
    assert isinstance(batch.next_obs, torch.Tensor)
    axes = tuple(range(batch.reward.dim(), batch.obs.dim()))
    seen, then = (x.to(torch.float32).mean(axes) / 200 for x in (batch.obs, batch.next_obs))
    return Evaluation(batch.reward - shift * seen + then, {"q": torch.stack([seen * shift, then], -1)})
