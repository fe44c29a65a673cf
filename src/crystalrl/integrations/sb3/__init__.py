"""Replay buffers for Stable-Baselines3 that use crystalrl's memories: weighted, anchored and resumable.

    model = SAC("MlpPolicy", env, replay_buffer_class=CrystalReplayBuffer)
    model.learn(1_000_000, callback=Consolidate())

No algorithm is subclassed: weights and anchors enter the gradients through hooks on the networks.
"""

from crystalrl.packages import require

require("crystalrl.integrations.sb3", "stable_baselines3", extra="sb3")

from crystalrl.integrations.sb3.buffers import CrystalReplayBuffer, PrioritizedReplayBuffer  # noqa: E402
from crystalrl.integrations.sb3.callback import Consolidate  # noqa: E402
from crystalrl.integrations.sb3.checks import silence_n_steps  # noqa: E402

silence_n_steps()

__all__ = ["Consolidate", "CrystalReplayBuffer", "PrioritizedReplayBuffer"]
