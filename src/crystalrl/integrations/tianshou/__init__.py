"""A crystal memory for Tianshou 2: a replay buffer with weights and anchors that can be resumed.

buffer = CrystalReplayBuffer(20_000, buffer_num=len(envs))
buffer.attach(algorithm)
collector = Collector(algorithm, envs, buffer)
"""

from crystalrl.integrations._common import require

require("tianshou", "tianshou")

from crystalrl.integrations.tianshou.buffer import CrystalReplayBuffer  # noqa: E402

__all__ = ["CrystalReplayBuffer"]
