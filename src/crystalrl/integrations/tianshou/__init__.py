"""A crystal memory for Tianshou 2: a replay buffer with weights and anchors that can be resumed.

buffer = CrystalReplayBuffer(20_000, buffer_num=len(envs))
buffer.attach(algorithm)
collector = Collector(algorithm, envs, buffer)
"""

from crystalrl.packages import require

require("crystalrl.integrations.tianshou", "tianshou", extra="tianshou")

from crystalrl.integrations.tianshou.buffer import CrystalReplayBuffer  # noqa: E402

__all__ = ["CrystalReplayBuffer"]
