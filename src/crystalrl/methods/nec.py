"""Writing of neural episodic control (Pritzel et al. 2017): every stored experience enters the agent's dictionary.

The agent `nec` needs it, and it works with this agent only. The dictionary counts as memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from crystalrl.agents.nec import NEC
from crystalrl.methods.base import Method, Setup, read_slots, refuse


@dataclass(frozen=True)
class WriterParams:
    """Writing has no settings: those of the dictionary belong to the agent."""


class Writer(Method):
    """Writes n-step returns, as the memory stores them."""

    def __init__(self, setup: Setup, params: WriterParams) -> None:
        refuse("nec", not isinstance(setup.agent, NEC), "the agent nec", type(setup.agent).__name__)
        assert isinstance(setup.agent, NEC)
        self.agent, self.memory = setup.agent, setup.memory

    def stored(self, slots: Tensor) -> None:
        """Write the experiences just stored."""
        flat = slots.flatten(1)
        self.agent.write(read_slots(self.memory, flat.clamp_min(0)), flat >= 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the dictionary: keys, values and bookkeeping."""
        return sum(tensor.nbytes for tensor in self.agent.dictionary.tensors().values())
