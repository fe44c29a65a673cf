"""The replay buffer for Tianshou."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.data import Batch as Samples
from tianshou.data import ReplayBuffer, ReplayBufferManager
from torch import Tensor

from crystalrl.integrations.randomness import private_randomness
from crystalrl.integrations.tianshou.columns import STORED, fields_of, nested, rows_of
from crystalrl.integrations.tianshou.learners import Learner, learner_of
from crystalrl.integrations.tianshou.links import Links, following
from crystalrl.integrations.timing import consolidate
from crystalrl.memory import CheckpointError, Consolidation, CrystalMemory
from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.external import borrow, store, structure
from crystalrl.params import CrystalParams
from crystalrl.types import Batch, Evaluation

LINKS = "after"


class CrystalReplayBuffer(ReplayBufferManager):
    """A crystal memory with Tianshou's own arrays, for one environment or `buffer_num` parallel ones.

    It consolidates by itself when it is due, after a gradient step. `params` is a preset or your own `CrystalParams`;
    None: `CrystalParams.anchored()`. Infos are not stored. Invariant: experiences lie where the ledger says.
    """

    def __init__(self, size: int, buffer_num: int = 1, params: CrystalParams | None = None, *, seed: int = 0) -> None:
        super().__init__([ReplayBuffer(1) for _ in range(buffer_num)])  # Tianshou counts them, nothing is kept there
        self.maxsize, self.seed = int(size), seed
        self.params = params or CrystalParams.anchored()
        self.memory: CrystalMemory | None = None
        self.learner: Learner | None = None
        self.report: Consolidation | None = None
        """Of the last consolidation."""
        self.links = Links(self.maxsize, buffer_num)
        self._open: list[list[int]] = [[] for _ in range(buffer_num)]
        self._rewards = np.zeros(buffer_num)
        self._closed: dict[tuple[int, int], NDArray[np.int64]] = {}

    def attach(self, algorithm: Any) -> None:
        """Let anchors act on this algorithm's gradients, and ask it when consolidating."""
        if self.learner is not None:
            self.learner.remove()
        self.learner = learner_of(algorithm)

    @property
    def held(self) -> CrystalMemory:
        """The memory; an error while there is none."""
        if self.memory is None:
            raise RuntimeError("CrystalReplayBuffer: wanted experiences before anything else, got none")
        return self.memory

    @property
    def asked(self) -> Learner:
        if self.learner is None:
            raise RuntimeError("CrystalReplayBuffer: wanted an algorithm, got none: call buffer.attach(algorithm)")
        return self.learner

    def __len__(self) -> int:
        return 0 if self.memory is None else len(self.memory)

    def reset(self, keep_statistics: bool = False) -> None:
        if self.memory is not None:
            self.memory.clear()
        self.links.clear()
        self._open = [[] for _ in self._open]
        self._rewards[:] = 0

    def add(self, batch: Any, buffer_ids: Any = None) -> Any:
        """Slots, and for ended episodes their return and length, and the slot of their first step."""
        ids = np.arange(self.buffer_num) if buffer_ids is None else np.asarray(buffer_ids)
        rows = rows_of(batch, len(ids))
        ended = torch.as_tensor(rows["done"])
        if self.memory is None:
            self._make(rows)

        def write(slots: Tensor) -> None:
            for name, row in rows.items():
                self._column(name)[slots.numpy()] = row

        slots = store(self.held, write, ended).numpy()
        self.links.write(slots, ids, rows["done"])
        returns, lengths, first = np.zeros(len(ids)), np.zeros(len(ids), int), np.zeros(len(ids), int)
        for k, env in enumerate(ids):
            self._open[env].append(int(slots[k]))
            self._rewards[env] += rows["rew"][k]
            first[k] = self._open[env][0]
            if rows["done"][k]:
                returns[k], lengths[k] = self._rewards[env], len(self._open[env])
                self._closed = {(int(first[k]), int(slots[k]) + 1): np.array(self._open[env]), **self._closed}
                self._open[env], self._rewards[env] = [], 0.0
        self._closed = dict(list(self._closed.items())[: self.buffer_num])
        return slots, returns, lengths, first

    def get_buffer_indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """Slots of the episode that has just ended, for the collector."""
        return self._closed[(start, stop)]

    def _make(self, rows: dict[str, NDArray[Any]]) -> None:
        learner, first = self.asked, {name: row[:1] for name, row in rows.items()}
        self._allocate({name: (row.shape[1:], row.dtype) for name, row in rows.items()})
        space = learner.algorithm.policy.action_space
        with torch.no_grad():
            samples = Samples({**nested(first), "info": Samples()})
            outputs = learner.outputs(samples) if self.params.uses_anchors else {}
        shapes = structure(fields_of(first), int(space.n) if hasattr(space, "n") else None)
        anchor = {name: tuple(output.shape[1:]) for name, output in outputs.items()}
        self.memory = borrow(self.maxsize, self._fetch, self.params, anchor, seed=self.seed, **shapes)

    def _allocate(self, columns: dict[str, tuple[tuple[int, ...], Any]]) -> None:
        empty = {name: np.zeros((self.maxsize, *shape), kind) for name, (shape, kind) in columns.items()}
        self._names, self._meta = tuple(columns), Samples(nested(empty))

    def _column(self, name: str) -> NDArray[Any]:
        """What is stored under a name, or under a name within dict observations."""
        outer, _, inner = name.partition(".")
        column: NDArray[Any] = self._meta[outer][inner] if inner else self._meta[outer]
        return column

    def _fetch(self, slots: Tensor) -> dict[str, Any]:
        return fields_of({name: self._column(name)[slots.numpy()] for name in self._names})

    def sample_indices(self, batch_size: int | None) -> NDArray[np.int64]:
        """Drawn slots; for 0 or None all that hold an experience, in order of arrival."""
        if batch_size:
            self._drawn = self.held.sample(batch_size)
            drawn: NDArray[np.int64] = self._drawn.index.numpy()
            return drawn
        if self.memory is None:
            return np.zeros(0, np.int64)
        slots = (self.memory.ledger.phase[0] > 0).nonzero()[:, 0]
        stored: NDArray[np.int64] = slots[self.memory.ledger.birth[0, slots].argsort()].numpy()
        return stored

    def sample(self, batch_size: int | None) -> tuple[Any, NDArray[np.int64]]:
        indices = self.sample_indices(batch_size)
        samples = self[indices]
        if batch_size:
            samples.weight = self._drawn.weight.numpy()
            self.asked.arm(self._drawn, samples)
        return samples, indices

    def update_weight(self, index: Any, new_weight: Any) -> None:
        """Tianshou calls this after each gradient step; |δ| is taken from what the critics said, not from `new_weight`,
        in which twins may cancel. Consolidates when due.
        """
        self.held.update(torch.as_tensor(np.asarray(index)), self.asked.told().cpu())
        if self.held.due:
            self.consolidate()

    def consolidate(self) -> Consolidation:
        """Let experiences crystallize or melt, as the attached algorithm sees them now."""
        self.report = consolidate(self.held, self._evaluate)
        return self.report

    def _evaluate(self, batch: Batch) -> Evaluation:
        slots = batch.index.numpy()
        with torch.no_grad(), private_randomness(torch.device("cpu")):
            return self.asked.evaluate(self[slots], self, slots)

    def unfinished_index(self) -> NDArray[np.int64]:
        """Slots whose episode went on, but whose next step is not here, or not any more: returns over several steps
        end there, and bootstrap.
        """
        missing: NDArray[np.int64] = np.flatnonzero((self.links.after < 0) & ~self._meta.done)
        return missing

    def next(self, index: Any) -> Any:
        """Slots of the steps after; the same slot where there is none."""
        return following(self.links.after, index)

    def prev(self, index: Any) -> Any:
        """Slots of the steps before; the same slot where there is none."""
        return following(self.links.before, index)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, without pickle: loaded, the next batches are those that would have come."""
        memory, columns = self.held, {name: self._column(name) for name in self._names} | {LINKS: self.links.after}
        header = {**memory._header(), "seed": self.seed}
        payload = {f"payload.{name}": torch.from_numpy(column) for name, column in columns.items()}
        checkpoint.write(path, header, {**memory.state_dict(), **payload})

    def load(self, path: str | PathLike[str]) -> None:
        """Continue from a file of `save`. Attach the algorithm first; then let the collector keep the contents:
        `collector.reset(reset_buffer=False)`."""
        header, tensors = checkpoint.read(path)
        columns = {
            n.removeprefix("payload."): tensors.pop(n).numpy() for n in list(tensors) if n.startswith("payload.")
        }
        found, after = {name.partition(".")[0] for name in columns}, columns.pop(LINKS, np.zeros(0, np.int64))
        if found != {*STORED, LINKS} or len(after) != self.maxsize:
            got = f"{len(after)} with {sorted(found)}"
            raise CheckpointError(f"{path}: wanted {self.maxsize} slots with {sorted((*STORED, LINKS))}, got {got}")
        self._make(columns)
        own = json.loads(json.dumps(self.held._header()))  # lists for tuples, as in the file
        for name in ("kind", "structure", "params"):
            if header[name] != own[name]:
                raise CheckpointError(f"{path}: wanted {name} {own[name]}, got {header[name]}")
        self.held.load_state_dict(tensors)
        for name, column in columns.items():
            self._column(name)[:] = column
        self.links.load(after)

    def save_hdf5(self, path: str, compression: str | None = None) -> None:
        raise NotImplementedError("save_hdf5: wanted `save`, which keeps the memory's state, too")
