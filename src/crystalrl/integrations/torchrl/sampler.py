"""Sampler and writer for TorchRL's replay buffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.data.replay_buffers.writers import Writer

from crystalrl.integrations._common import consolidate
from crystalrl.integrations.outstanding import Lock, Outstanding
from crystalrl.integrations.torchrl.loss import MemoryLoss, entries
from crystalrl.memory import Consolidation, CrystalMemory
from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.external import ExternalArena, storage_options
from crystalrl.params import CrystalParams
from crystalrl.params_checks import require_params
from crystalrl.types import Batch, Evaluation

PATIENCE = 10
"""Batches that may be drawn before the first of them is given to the loss."""
FILE = "memory.safetensors"
UNATTACHED = "CrystalSampler: wanted a loss, got a copy without one: call sampler.attach(loss)"


class CrystalSampler(Sampler):
    """Draws by phase and TD error, with the ledger of a crystal memory over the buffer's own storage.

    The memory is built for the shapes of the first data. Use the sampler with its own `writer`. `params` is a preset or
    your own `CrystalParams`; None: `CrystalParams()`. A buffer with `prefetch` draws in threads of its own:
    `lock` keeps draws, writes, updates and consolidations apart.
    """

    def __init__(self, loss: MemoryLoss, params: CrystalParams | None = None, *, seed: int = 0) -> None:
        require_params(params, CrystalParams)
        self.params, self.seed = params or CrystalParams(), seed
        self.writer = CrystalWriter(self)
        self.memory: CrystalMemory | None = None
        self._loss: MemoryLoss | None = None
        self._packed: dict[str, Any] | None = None
        """The memory of a copied sampler that no loss is attached to yet."""
        self._drawn = 0
        """Batches drawn since the loss was attached."""
        self._outstanding, self.lock = Outstanding(), Lock()
        self.attach(loss)

    def attach(self, loss: MemoryLoss) -> None:
        """Use this loss from now on. A copied or unpickled sampler has none: attach one before using its buffer."""
        if not isinstance(loss, MemoryLoss):
            raise TypeError(f"loss: wanted a MemoryLoss around your loss module, got {type(loss).__name__}")
        self._loss, loss.report, self._drawn = loss, self.update, 0
        if self._packed is not None:
            loss.updates = max(loss.updates, self._packed["updates"])
            self._arena = ExternalArena(self.writer.storage.max_size, self._fetch)
            self.memory, self._packed = CrystalMemory.unpacked(self._packed, self._arena), None

    @property
    def loss(self) -> MemoryLoss:
        """The attached loss; an error in a copy that has none yet."""
        if self._loss is None:
            raise RuntimeError(UNATTACHED)
        return self._loss

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and deepcopy: everything except the loss. The storage copies the experiences."""
        state = {name: value for name, value in self.__dict__.items() if name != "_arena"}
        kept = self._packed if self.memory is None else {**self.memory.packed(), "updates": self.loss.updates}
        return {**state, "_loss": None, "memory": None, "_packed": kept, "_outstanding": Outstanding()}

    @property
    def built_memory(self) -> CrystalMemory:
        """The memory; an error before the first data."""
        if self._packed is not None:
            raise RuntimeError(UNATTACHED)
        if self.memory is None:
            raise RuntimeError("CrystalSampler: wanted data before anything else, got an empty buffer")
        return self.memory

    def __len__(self) -> int:
        """Experiences kept. The buffer's own length counts writes."""
        return 0 if self.memory is None and self._packed is None else len(self.built_memory)

    def build(self, data: Any) -> None:
        """Build the memory for experiences of the same shapes as `data`."""
        adapter, first, slots = self.loss.adapter, data[:1], self.writer.storage.max_size
        with torch.no_grad():
            anchored = adapter.outputs(first)[adapter.anchored]
            actions = adapter.actions(first)
        anchor = {adapter.anchored: tuple(anchored.shape[1:])} if self.params.uses_anchors else {}
        options = storage_options(self.fields(first), actions) | {"seed": self.seed}
        self._arena = ExternalArena(slots, self._fetch)
        self.memory = CrystalMemory(slots, params=self.params, anchor=anchor, arena=self._arena, **options)
        self.memory.episodes.gamma = float(self.loss.adapter.loss.value_estimator.gamma)

    def _fetch(self, slots: Tensor) -> dict[str, Any]:
        return self.fields(self._stored(slots))

    def _stored(self, slots: Tensor) -> Any:
        """Stored data. The storage has not initialised slots beyond the last experience: they give that experience."""
        last = self.memory.ledger.used - 1 if self.memory is not None and len(self.memory) else 0
        return self.writer.storage.get(slots.clamp_max(last))

    def fields(self, data: Any) -> dict[str, Any]:
        """Data [M] as the fields that `ExternalArena` fetches."""
        adapter, following = self.loss.adapter, data.get("next")
        keys = adapter.loss.tensor_keys
        terminated = following.get(keys.terminated).cpu().reshape(len(data))
        done = following.get(keys.done).cpu().reshape(len(data))
        return {
            "obs": _observation(data, adapter.observation_keys),
            "action": adapter.action(data).cpu(),
            "reward": following.get(keys.reward).cpu().reshape(len(data)).to(torch.float32),
            "next_obs": _observation(following, adapter.observation_keys),
            "terminated": terminated,
            "truncated": done & ~terminated,
        }

    def sample(self, storage: Any, batch_size: int) -> tuple[Tensor, dict[Any, Tensor]]:
        if storage is not self.writer.storage:
            raise RuntimeError("CrystalSampler: wanted writer=sampler.writer in the same buffer, got another writer")
        self._drawn += 1
        if self._drawn > PATIENCE and not self.loss.updates:
            raise RuntimeError(
                f"{PATIENCE} batches were drawn and none was given to the MemoryLoss: weights and anchors would be lost"
            )
        with self.lock:
            batch = self.built_memory.sample(batch_size)
            self._outstanding.put(batch)
        return batch.index, entries(batch)

    def update(self, index: Tensor, td_error: Tensor) -> None:
        """Report the TD errors [B] of drawn experiences; those rewritten since the draw are skipped. The MemoryLoss
        does so after each batch.
        """
        with self.lock:
            self.built_memory.update(self._outstanding.take(index.cpu()), td_error.cpu())

    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:
        """Same as `update`; the priority must be |δ|. TorchRL's losses write δ² or the larger of twins instead."""
        self.update(torch.as_tensor(index).reshape(-1), torch.as_tensor(priority).reshape(-1).float())

    @property
    def due(self) -> bool:
        """Whether it is time to consolidate; never before the first gradient step, when nothing has been learnt."""
        return self.memory is not None and self.memory.due and self.loss.updates > 0

    def consolidate(self) -> Consolidation:
        """Let experiences crystallize or melt, judged by the networks as they are now."""
        with self.lock:
            return consolidate(self.built_memory, self._evaluate)

    def _evaluate(self, batch: Batch) -> Evaluation:
        return self.loss.evaluate(self._stored(batch.index))

    def _empty(self) -> None:
        if self.memory is not None or self._packed is not None:
            self.built_memory.clear()

    def state_dict(self) -> dict[str, Any]:
        """Tensors, and the parameters as JSON; the storage saves the experiences."""
        if self.memory is None and self._packed is None:
            return {}
        header = {"params": json.dumps(self.params.to_json(), sort_keys=True), "updates": self.loss.updates}
        return {**header, "memory": self.built_memory.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`, which must have been made with the same parameters."""
        if not state_dict:
            self._empty()
            return
        own = json.dumps(self.params.to_json(), sort_keys=True)
        if state_dict["params"] != own:
            raise ValueError(f"params: wanted those of the saved memory {state_dict['params']}, got {own}")
        if self.memory is None:
            self.build(self._stored(torch.zeros(1, dtype=torch.int64)))
        self.built_memory.load_state_dict(state_dict["memory"])
        self._arena.invalidate()  # the storage has been loaded, too
        self.loss.updates = state_dict["updates"]

    def dumps(self, path: Any) -> None:
        state = self.state_dict()
        Path(path).mkdir(parents=True, exist_ok=True)
        checkpoint.write(Path(path) / FILE, {**state, "memory": None}, state.get("memory", {}))

    def loads(self, path: Any) -> None:
        header, tensors = checkpoint.read(Path(path) / FILE)
        self.load_state_dict({**header, "memory": tensors} if tensors else {})


class CrystalWriter(Writer):
    """Writes to the slots that the ledger allocates: a free slot, or that of the least useful experience."""

    def __init__(self, sampler: CrystalSampler) -> None:
        super().__init__()
        self.sampler = sampler
        self._write_count = 0

    @property
    def storage(self) -> Any:
        if self._storage is None:
            raise RuntimeError("CrystalWriter: wanted a replay buffer around it, got none")
        return self._storage

    def register_storage(self, storage: Any) -> None:
        if storage.ndim != 1:
            raise ValueError(f"storage: wanted ndim=1, one experience per slot, got ndim={storage.ndim}")
        super().register_storage(storage)

    def add(self, data: Any) -> int:
        return int(self.extend(data.unsqueeze(0)))

    def extend(self, data: Any) -> Tensor:
        """Store M experiences; their slots int64[M]."""
        if len(data.batch_size) != 1:
            shape = list(data.batch_size)
            raise ValueError(f"data: wanted experiences of batch size [M], got {shape}: use data.reshape(-1)")
        if self.sampler.memory is None:
            self.sampler.build(data)
        memory, fields = self.sampler.built_memory, self.sampler.fields(data)
        _refuse_not_finite(fields)
        episode = data.get(("collector", "traj_ids"), None)
        env = None if episode is None else episode.cpu().reshape(len(data))
        with self.sampler.lock:
            slots = memory.reserve_slots(len(data))
            data.set("index", slots.to(data.device) if data.device is not None else slots)
            self.storage.set(slots, data)
            memory.commit(slots, fields["terminated"] | fields["truncated"], env)
        self._write_count += len(slots)
        return slots

    def _empty(self, empty_write_count: bool = True) -> None:
        if empty_write_count:
            self._write_count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"write_count": self._write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._write_count = state_dict["write_count"]

    def dumps(self, path: Any) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / "writer.json").write_text(json.dumps(self.state_dict()))

    def loads(self, path: Any) -> None:
        self.load_state_dict(json.loads((Path(path) / "writer.json").read_text()))


def _observation(data: Any, keys: list[Any]) -> Any:
    """The only part of an observation, or its parts by name; a nested key is joined by dots."""
    parts = {key if isinstance(key, str) else ".".join(key): data.get(key).cpu() for key in keys}
    return next(iter(parts.values())) if len(parts) == 1 else parts


def _refuse_not_finite(fields: dict[str, Any]) -> None:
    for name in ("obs", "next_obs", "reward"):
        parts = fields[name].values() if isinstance(fields[name], dict) else [fields[name]]
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity")
