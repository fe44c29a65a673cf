"""A crystal memory for TorchRL: a sampler and a writer around its own storage; its own losses, weighted and anchored.

loss = MemoryLoss(SACLoss(actor, qvalue))
sampler = CrystalSampler(loss)
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(20_000), sampler=sampler, writer=sampler.writer)
"""

from crystalrl.packages import require

require("crystalrl.integrations.torchrl", "torchrl", extra="torchrl")

from crystalrl.integrations.torchrl.loss import MemoryLoss  # noqa: E402
from crystalrl.integrations.torchrl.sampler import CrystalSampler, CrystalWriter  # noqa: E402

__all__ = ["CrystalSampler", "CrystalWriter", "MemoryLoss"]
