"""Replay buffers for Stable-Baselines3: experiences in, weighted batches out, save and load."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from crystalrl.integrations._common import consolidate
from crystalrl.integrations.sb3.adapters import Adapter, ErrorKind, adapter_for
from crystalrl.integrations.sb3.checks import NO_HER, refuse_model, refuse_options, warn_if_slow
from crystalrl.integrations.sb3.contents import Contents, normalised
from crystalrl.integrations.sb3.hooks import Hooks
from crystalrl.memory import Consolidation, CrystalMemory, PrioritizedMemory, ReplayMemory, load_memory
from crystalrl.memory.storage.spec import from_spaces
from crystalrl.params import CrystalParams
from crystalrl.params_checks import require_params
from crystalrl.types import Batch, Evaluation, Transition


class MemoryReplayBuffer(Contents):
    """Base of both buffers. The memory is built when a model is attached (`Consolidate` does that), because what it
    stores depends on the algorithm. Until then the buffer is empty and rejects experiences.

    Options in addition to those of SB3's own buffer: `n_steps` and `gamma` (n-step returns, as in SB3's
    NStepReplayBuffer; None: the model's), `seed` (None: drawn from NumPy's generator, which SB3 seeds with the model's
    seed) and `stack` (frames in an image, channels first, as `VecFrameStack` and SB3's transposition give it; each is
    stored once; None: observations are stored whole).
    """

    kind: ClassVar[type[ReplayMemory]]
    """Class of the memory."""
    reported: ClassVar[tuple[ErrorKind, ...]]
    """Kinds of TD errors from the gradients that are reported to the memory."""
    memory: ReplayMemory | None = None
    hooks: Hooks | None = None
    adapter: Adapter | None = None
    stack: int | None = None

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        n_steps: int | None = None,
        gamma: float | None = None,
        seed: int | None = None,
        stack: int | None = None,
        **unknown: Any,
    ) -> None:
        refuse_options(type(self), optimize_memory_usage, unknown)
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        del self.pos, self.full  # read from the memory instead
        self.optimize_memory_usage, self.handle_timeout_termination = False, handle_timeout_termination
        self.n_steps, self.gamma, self.stack = n_steps, gamma, stack
        self.seed = int(np.random.randint(2**31)) if seed is None else seed  # noqa: NPY002 - the generator SB3 seeds
        self._updates = 0

    def __init_subclass__(cls) -> None:
        if HerReplayBuffer in cls.__mro__:
            raise TypeError(f"{cls.__name__}: {NO_HER}")

    def attach(self, model: Any) -> None:
        """Apply weights and anchors to this model's gradients. `Consolidate` calls it whenever learning begins."""
        adapter = adapter_for(model)
        if self.n_steps is None:
            self.n_steps = model.n_steps if self.memory is None else self.memory.spec.n_step
        if self.gamma is None:
            self.gamma = model.gamma
        refuse_model(model, adapter, self.n_steps, self.gamma)
        if self.memory is None:
            self.memory = self._build(adapter)
        self._check(self.memory, adapter)
        if isinstance(self.memory, CrystalMemory):
            self.memory.episodes.gamma = model.gamma
        self.memory.deliver = torch.device(self.device)
        self.model, self.adapter = model, adapter
        self._updates = model._n_updates
        report = adapter.error in self.reported
        self.hooks = Hooks(adapter, (lambda batch, error: self.built_memory.update(batch, error)) if report else None)

    def _build(self, adapter: Adapter) -> ReplayMemory:
        raise NotImplementedError

    def _check(self, memory: ReplayMemory, adapter: Adapter | None) -> None:
        """Raise if a memory is not of this buffer's kind, or not for this model."""
        if not isinstance(memory, self.kind):
            raise ValueError(f"memory: wanted a {self.kind.__name__}, got {type(memory).__name__}")

    def _storage(self) -> dict[str, Any]:
        """Arguments of the memory. With one step the model applies γ, so the stored discount is 1 − terminated."""
        options: dict[str, Any] = {**from_spaces(self.observation_space, self.action_space)}
        shapes: Any = self.obs_shape  # SB3 gives a discrete observation an axis
        options["obs"] = dict(shapes) if isinstance(shapes, Mapping) else shapes
        if not isinstance(self.action_space, spaces.Discrete):
            options["action"] = (self.action_dim,)
        if self.n_steps is not None:
            options |= {"n_step": self.n_steps, "gamma": self.gamma if self.n_steps > 1 else 1.0}
        return {**options, "envs": self.n_envs, "seed": self.seed, "deliver": self.device, "stack": self.stack}

    @property
    def built_memory(self) -> ReplayMemory:
        """The memory; an error before a model is attached."""
        if self.memory is None:
            raise self._unattached()
        return self.memory

    def _unattached(self) -> RuntimeError:
        return RuntimeError(
            f"{type(self).__name__}: wanted a model, got none (also after load_replay_buffer): pass "
            "callback=Consolidate() to learn, or call model.replay_buffer.attach(model)"
        )

    def size(self) -> int:
        """Experiences stored, of all environments."""
        return 0 if self.memory is None else len(self.memory)

    def reset(self) -> None:
        if self.memory is not None:
            self.memory.clear()

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        memory = self.built_memory
        ended = np.asarray(done, dtype=bool)
        truncated = np.zeros_like(ended)
        if self.handle_timeout_termination and ended.any():
            truncated = ended & np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        obs, next_obs = self._reshape(obs), self._reshape(next_obs)
        discrete = isinstance(self.action_space, spaces.Discrete)
        action = np.reshape(action, (self.n_envs,) if discrete else (self.n_envs, self.action_dim))
        if memory.windows is not None:
            self._close_abandoned(memory, obs)
        memory.add(Transition(obs, action, reward, next_obs, ended & ~truncated, truncated))

    def _close_abandoned(self, memory: ReplayMemory, obs: Any) -> None:
        """Close the n-step windows of environments that were reset in mid-episode, as `learn` does: those whose
        observation is not the one that the last step led to.
        """
        assert memory.windows is not None
        last = memory.packer.layout.torch_views(memory.windows.last[0])
        abandoned = torch.zeros(self.n_envs, dtype=torch.bool)
        for name, part in obs.items() if isinstance(obs, Mapping) else [("", obs)]:
            stored = last[f"next_obs.{name}" if name else "next_obs"].cpu()
            differs = stored != torch.as_tensor(part).to(stored.dtype)
            abandoned |= differs.flatten(1).any(1)
        abandoned &= (memory.windows.length[0] > 0).any(-1).cpu()
        if bool(abandoned.any()):
            memory.end_episode(abandoned.to(memory.device) if self.n_envs > 1 else abandoned[0])

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        return self._draw(batch_size, env)[1]

    def _draw(self, batch_size: int, env: Any) -> tuple[Batch, ReplayBufferSamples]:
        """A batch, as the memory returns it and as SB3 expects it; the critic must train on it next."""
        memory, hooks = self.built_memory, self.hooks
        if hooks is None:
            raise self._unattached()
        if not hooks.used and self.model._n_updates > self._updates + 1:
            raise RuntimeError(
                "the critic was trained on other tensors than sample() returned, so weights were lost: wanted the "
                f"training loop of SB3, got {type(self.model).__name__}.train of another kind"
            )
        batch = memory.sample(batch_size)
        samples = self.samples(batch, env)
        hooks.arm(batch, samples)
        return batch, samples

    def samples(self, batch: Batch, env: Any = None) -> ReplayBufferSamples:
        """A batch as SB3 expects it; `env` is the VecNormalize around the training environments, if there is one."""
        action = batch.action if batch.action.dim() > 1 else batch.action.unsqueeze(1)
        reward, discount = batch.reward.unsqueeze(1), batch.discount.unsqueeze(1)
        obs: Any = batch.obs
        next_obs: Any = batch.next_obs
        if env is not None:
            obs, next_obs = normalised(obs, env), normalised(next_obs, env)
            scaled = env.normalize_reward(reward.cpu().numpy()).astype(np.float32)
            reward = torch.as_tensor(scaled, device=reward.device)
        if self.n_steps == 1:
            return ReplayBufferSamples(obs, action, next_obs, 1 - discount, reward)
        return ReplayBufferSamples(obs, action, next_obs, (discount == 0).float(), reward, discount)

    def evaluate(self, batch: Batch) -> Evaluation:
        """Current TD errors and outputs of the attached model."""
        assert self.adapter is not None
        with torch.no_grad():
            return self.adapter.evaluate(self.samples(batch, self.model.get_vec_normalize_env()))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the memory to one file, without pickle. After loading, the next batches are those that would have been
        drawn without the interruption.
        """
        self.built_memory.save(path)

    def load(self, path: str | PathLike[str]) -> None:
        """Continue from a file of `save`, with the parameters stored in it."""
        memory = load_memory(path)
        wanted = self._storage() | {"capacity": self.buffer_size}
        for name in ("capacity", "obs", "action", "obs_dtype", "action_dtype", "envs", "n_step", "gamma", "stack"):
            if name in wanted and wanted[name] != getattr(memory.spec, name):
                raise ValueError(f"{path}: wanted {name} {wanted[name]}, got {getattr(memory.spec, name)}")
        self._check(memory, self.adapter)
        memory.deliver = torch.device(self.device)
        self.memory = memory

    def __getstate__(self) -> dict[str, Any]:
        """For SB3's `save_replay_buffer`, which pickles: everything except the model."""
        return {name: value for name, value in self.__dict__.items() if name not in ("hooks", "model", "adapter")}


class CrystalReplayBuffer(MemoryReplayBuffer):
    """A `CrystalMemory` for SB3. `params` is a preset or your own `CrystalParams`; None: `CrystalParams()`."""

    kind = CrystalMemory
    reported = ("exact",)

    def __init__(self, *args: Any, params: CrystalParams | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        require_params(params, CrystalParams)
        self._params = params or CrystalParams()

    @property
    def params(self) -> CrystalParams:
        """The memory's parameters, which may come from a file; before there is a memory, those given."""
        return self.memory.params if isinstance(self.memory, CrystalMemory) else self._params

    def _build(self, adapter: Adapter) -> ReplayMemory:
        anchors = adapter.anchors() if self.params.uses_anchors else {}
        if "policy" in anchors and getattr(adapter.model, "use_sde", False):
            why = "the policy has no log σ per state to anchor; params=CrystalParams.unanchored() needs no anchors"
            raise ValueError(f"use_sde: wanted False, got True: {why}")
        warn_if_slow(self.buffer_size, self.params)
        return CrystalMemory(self.buffer_size, params=self.params, anchor=anchors, **self._storage())

    def _check(self, memory: ReplayMemory, adapter: Adapter | None) -> None:
        super()._check(memory, adapter)
        if adapter is not None and isinstance(memory, CrystalMemory):
            wanted = adapter.anchors() if memory.params.uses_anchors else {}
            got = {name: tuple(anchor.shape[2:]) for name, anchor in memory.anchors.items()}
            if wanted != got:
                raise ValueError(f"memory: wanted the anchors {wanted} of this model, got {got}")

    @property
    def due(self) -> bool:
        """Whether it is time to consolidate; never before the first gradient step, when nothing has been learnt."""
        return self.memory is not None and self.memory.due and self.model._n_updates > 0

    def consolidate(self) -> Consolidation:
        """Let experiences crystallize or melt, judged by the attached model as it is now."""
        memory = self.built_memory
        assert isinstance(memory, CrystalMemory)
        return consolidate(memory, self.evaluate)


class PrioritizedReplayBuffer(MemoryReplayBuffer):
    """Prioritized replay (Schaul et al. 2016) for SB3: `alpha`, `beta`, `is_steps`, `epsilon` of `PrioritizedMemory`.

    |δ| comes from the gradients: exact for SAC and TD3, at most 1 for DQN (as in their paper). The gradient of a
    quantile loss does not give it, so for TQC and QR-DQN every batch is evaluated again, which costs a forward pass.
    """

    kind = PrioritizedMemory
    reported = ("exact", "clipped")

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        beta: float = 0.4,
        is_steps: int | None = None,
        epsilon: float = 1e-6,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.priority: dict[str, Any] = {"alpha": alpha, "beta": beta, "is_steps": is_steps, "epsilon": epsilon}

    def _build(self, adapter: Adapter) -> ReplayMemory:
        return PrioritizedMemory(self.buffer_size, **self.priority, **self._storage())

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        batch, samples = self._draw(batch_size, env)
        if self.adapter is not None and self.adapter.error == "none":
            with torch.no_grad():
                self.built_memory.update(batch, self.adapter.evaluate(samples).td_error)
        return samples
