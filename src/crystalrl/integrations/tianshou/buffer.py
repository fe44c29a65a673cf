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

from crystalrl.integrations._common import consolidate, private_randomness
from crystalrl.integrations.outstanding import Outstanding
from crystalrl.integrations.tianshou.adapters import Adapter, adapter_for
from crystalrl.integrations.tianshou.columns import STORED, fields_of, nested, rows_of
from crystalrl.integrations.tianshou.links import Links, following
from crystalrl.memory import CheckpointError, Consolidation, CrystalMemory
from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.external import ExternalArena, storage_options
from crystalrl.params import CrystalParams
from crystalrl.params_checks import require_params
from crystalrl.types import Batch, Evaluation

LINKS, PAYLOAD = "after", "payload."


class CrystalReplayBuffer(ReplayBufferManager):
    """A crystal memory with Tianshou's own arrays, for one environment or `buffer_num` parallel ones.

    It consolidates by itself when it is due, after a gradient step. `params` is a preset or your own `CrystalParams`;
    None: `CrystalParams()`. Infos are not stored. Invariant: experiences are in the slots that the ledger
    allocated.
    """

    def __init__(self, size: int, buffer_num: int = 1, params: CrystalParams | None = None, *, seed: int = 0) -> None:
        super().__init__([ReplayBuffer(1) for _ in range(buffer_num)])  # Tianshou counts them; nothing is stored there
        self.maxsize, self.seed = int(size), seed
        require_params(params, CrystalParams)
        self.params = params or CrystalParams()
        self.memory: CrystalMemory | None = None
        self.adapter: Adapter | None = None
        self.report: Consolidation | None = None
        """Report of the last consolidation."""
        self.links = Links(self.maxsize, buffer_num)
        self._episodes: list[list[int]] = [[] for _ in range(buffer_num)]
        """Slots of each environment's current episode."""
        self._returns = np.zeros(buffer_num)
        """Sum of rewards of each environment's current episode."""
        self._ended: dict[tuple[int, int], NDArray[np.int64]] = {}
        """Slots of the episodes that ended last, by their first slot and one after their last slot."""
        self._outstanding = Outstanding()

    def attach(self, algorithm: Any) -> None:
        """Add anchors to this algorithm's gradients, and evaluate with it when consolidating."""
        if self.adapter is not None:
            self.adapter.remove()
        self.adapter = adapter_for(algorithm)

    @property
    def built_memory(self) -> CrystalMemory:
        """The memory; an error before the first experiences."""
        if self.memory is None:
            raise RuntimeError("CrystalReplayBuffer: wanted experiences before anything else, got none")
        return self.memory

    @property
    def attached(self) -> Adapter:
        """The adapter of the attached algorithm; an error before `attach`."""
        if self.adapter is None:
            raise RuntimeError("CrystalReplayBuffer: wanted an algorithm, got none: call buffer.attach(algorithm)")
        return self.adapter

    def __len__(self) -> int:
        return 0 if self.memory is None else len(self.memory)

    def reset(self, keep_statistics: bool = False) -> None:
        if self.memory is not None:
            self.memory.clear()
        self.links.clear()
        self._episodes = [[] for _ in self._episodes]
        self._returns[:] = 0

    def add(self, batch: Any, buffer_ids: Any = None) -> Any:
        """Slots, return and length of the episodes that ended (else 0), and the slot of each episode's first step.

        With a single environment the batch may be one transition without an axis of environments.
        """
        envs = np.arange(self.buffer_num) if buffer_ids is None else np.asarray(buffer_ids)
        rows = rows_of(batch, len(envs))
        if self.memory is None:
            self._build(rows)
        memory = self.built_memory
        reserved = memory.reserve_slots(len(envs))
        slots: NDArray[np.int64] = reserved.numpy()
        for name, row in rows.items():
            self._column(name)[slots] = row
        memory.commit(reserved, torch.as_tensor(rows["done"]), torch.as_tensor(envs))
        self.links.write(slots, envs, rows["done"])
        return slots, *self._count(envs, slots, rows)

    def _count(
        self, envs: NDArray[np.int64], slots: NDArray[np.int64], rows: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Return and length of the episodes that ended (else 0), and the slot of each episode's first step; all [M]."""
        returns, lengths, first = np.zeros(len(envs)), np.zeros(len(envs), int), np.zeros(len(envs), int)
        for k, env in enumerate(envs):
            self._episodes[env].append(int(slots[k]))
            self._returns[env] += rows["rew"][k]
            first[k] = self._episodes[env][0]
            if rows["done"][k]:
                returns[k], lengths[k] = self._returns[env], len(self._episodes[env])
                self._ended = {(int(first[k]), int(slots[k]) + 1): np.array(self._episodes[env]), **self._ended}
                self._episodes[env], self._returns[env] = [], 0.0
        self._ended = dict(list(self._ended.items())[: self.buffer_num])
        return returns, lengths, first

    def get_buffer_indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """Slots of the steps from slot `start` to the one before slot `stop`, of one episode. If the episode has just
        ended, also those that have been overwritten meanwhile.
        """
        if start == stop:
            return np.zeros(0, np.int64)
        known = self._ended.get((start, stop))
        return self.links.between(start, stop) if known is None else known

    def _build(self, rows: dict[str, NDArray[Any]]) -> None:
        """Allocate the arrays and build the memory for experiences of these shapes."""
        adapter, first = self.attached, {name: row[:1] for name, row in rows.items()}
        self._allocate({name: (row.shape[1:], row.dtype) for name, row in rows.items()})
        space = adapter.algorithm.policy.action_space
        with torch.no_grad():
            samples = Samples({**nested(first), "info": Samples()})
            anchored = adapter.outputs(samples)[adapter.anchored]
        anchor = {adapter.anchored: tuple(anchored.shape[1:])} if self.params.uses_anchors else {}
        actions = int(space.n) if hasattr(space, "n") else None
        options = storage_options(fields_of(first), actions) | {"seed": self.seed}
        arena = ExternalArena(self.maxsize, self._fetch)
        self.memory = CrystalMemory(self.maxsize, params=self.params, anchor=anchor, arena=arena, **options)
        self.memory.episodes.gamma = adapter.algorithm.gamma

    def _allocate(self, columns: dict[str, tuple[tuple[int, ...], Any]]) -> None:
        empty = {name: np.zeros((self.maxsize, *shape), kind) for name, (shape, kind) in columns.items()}
        self._names, self._meta = tuple(columns), Samples(nested(empty))

    def _column(self, name: str) -> NDArray[Any]:
        """The stored array of a column; obs.name is a part of a dict observation."""
        outer, _, inner = name.partition(".")
        column: NDArray[Any] = self._meta[outer][inner] if inner else self._meta[outer]
        return column

    def _fetch(self, slots: Tensor) -> dict[str, Any]:
        return fields_of({name: self._column(name)[slots.numpy()] for name in self._names})

    def sample_indices(self, batch_size: int | None) -> NDArray[np.int64]:
        """Drawn slots; for 0 or None all that hold an experience, in order of arrival; for a negative number none."""
        if batch_size is not None and batch_size < 0:
            return np.zeros(0, np.int64)
        if batch_size:
            self._drawn = self.built_memory.sample(batch_size)
            self._outstanding.put(self._drawn)
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
        if batch_size is not None and batch_size > 0:
            samples.weight = self._drawn.weight.numpy()
            self.attached.arm(self._drawn, samples)
        return samples, indices

    def update_weight(self, index: Any, new_weight: Any) -> None:
        """Called by Tianshou after each gradient step. |δ| is computed from the critics' outputs, not taken from
        `new_weight`, in which the errors of twins may cancel. Entries rewritten since the draw are skipped.
        Consolidates when due.
        """
        memory = self.built_memory
        memory.update(self._outstanding.take(torch.as_tensor(np.asarray(index))), self.attached.td_errors().cpu())
        if memory.due:
            self.consolidate()

    def consolidate(self) -> Consolidation:
        """Let experiences crystallize or melt, judged by the attached algorithm as it is now."""
        self.report = consolidate(self.built_memory, self._evaluate)
        return self.report

    def _evaluate(self, batch: Batch) -> Evaluation:
        slots = batch.index.numpy()
        with torch.no_grad(), private_randomness(torch.device("cpu")):
            return self.attached.evaluate(self[slots], self, slots)

    def unfinished_index(self) -> NDArray[np.int64]:
        """Slots whose episode goes on, but whose next step is not stored (yet, or any more): n-step returns stop and
        bootstrap there.
        """
        if self.memory is None:
            return np.zeros(0, np.int64)
        stored = (self.memory.ledger.phase[0] > 0).numpy()
        missing: NDArray[np.int64] = np.flatnonzero(stored & (self.links.after < 0) & ~self._meta.done)
        return missing

    def next(self, index: Any) -> Any:
        """Slots of the next steps; the same slot where there is none."""
        return following(self.links.after, index)

    def prev(self, index: Any) -> Any:
        """Slots of the previous steps; the same slot where there is none."""
        return following(self.links.before, index)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, without pickle. After loading, the next batches are those that would have been
        drawn without the interruption.
        """
        memory, columns = self.built_memory, {name: self._column(name) for name in self._names}
        header = {**memory._header(), "seed": self.seed}
        payload = {f"{PAYLOAD}{name}": torch.from_numpy(x) for name, x in {**columns, LINKS: self.links.after}.items()}
        checkpoint.write(path, header, {**memory.state_dict(), **payload})

    def load(self, path: str | PathLike[str]) -> None:
        """Continue from a file of `save`. Attach the algorithm first; afterwards keep the collector from emptying the
        buffer: `collector.reset(reset_buffer=False)`.
        """
        header, tensors = checkpoint.read(path)
        columns = {
            name.removeprefix(PAYLOAD): tensors.pop(name).numpy() for name in list(tensors) if name.startswith(PAYLOAD)
        }
        found, after = {name.partition(".")[0] for name in columns}, columns.pop(LINKS, np.zeros(0, np.int64))
        if found != {*STORED, LINKS} or len(after) != self.maxsize:
            got = f"{len(after)} with {sorted(found)}"
            raise CheckpointError(f"{path}: wanted {self.maxsize} slots with {sorted((*STORED, LINKS))}, got {got}")
        self._build(columns)
        memory = self.built_memory
        own = json.loads(json.dumps(memory._header()))  # lists for tuples, as in the file
        for name in ("kind", "structure", "params"):
            if header[name] != own[name]:
                raise CheckpointError(f"{path}: wanted {name} {own[name]}, got {header[name]}")
        for name, column in columns.items():
            self._column(name)[:] = column
        memory.load_state_dict(tensors)  # after the arrays, which it reads to restore neighbour lists
        memory.episodes.abandon()
        self.links.load(after)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and deepcopy: everything except the algorithm. Attach one to the copy before it is used."""
        state = {name: value for name, value in self.__dict__.items() if name != "_drawn"}
        kept = None if self.memory is None else self.memory.packed()
        return {**state, "adapter": None, "memory": kept, "_outstanding": Outstanding()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "memory": None})
        if state["memory"] is not None:
            self.memory = CrystalMemory.unpacked(state["memory"], ExternalArena(self.maxsize, self._fetch))

    def save_hdf5(self, path: str, compression: str | None = None) -> None:
        raise NotImplementedError("save_hdf5: wanted `save`, which also keeps the memory's state")
