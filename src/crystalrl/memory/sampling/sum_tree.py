"""Weighted sampling over slots: a tree of sums with several strata.

A slot has a weight (float32) and a label, the stratum it belongs to. Inner nodes hold one float64 sum per stratum, and
an update recomputes each sum on its path from its children, in order. So sums never drift: after any number of updates
they equal a fresh build bit for bit. A slot of weight zero is never drawn, whatever the rounding.

Between a draw and its update, a slot may be rewritten. Each slot has a generation, which increases when it is
rewritten; a draw returns the generations as its ticket, so an update with this ticket can skip slots rewritten since.

The backend of the device does the work. All backends give the same slots for the same uniforms, unless a uniform is
within rounding (1e-15) of the border between two nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.backends.alloc import zeros
from crystalrl.backends.protocols import UNLABELLED, SlotColumns, TreeTensors
from crystalrl.backends.torch_tree import bump
from crystalrl.memory.sampling.checks import tree_problems
from crystalrl.memory.sampling.priority import LossGate, PriorityRule
from crystalrl.memory.storage.checks import refuse
from crystalrl.random import Stream, Streams

FIRST = 1
"""Generation of a slot never written. Files hold it."""


class SumTree:
    """Weights of `lanes` × `slots`, drawable by stratum.

    Invariant: every inner sum is the float64 sum of its children; padding has weight 0 and no label. With a single
    stratum there are no labels: every slot belongs to it.
    """

    def __init__(self, lanes: int, slots: int, strata: int = 1, device: torch.device | str = "cpu") -> None:
        self.lanes, self.slots, self.strata = lanes, slots, strata
        self.device = torch.device(device)
        kind = backend_for(self.device).tree
        self._ordered = kind.ordered
        sizes = _level_sizes(slots, kind.arity, kind.top)
        padded = (slots // kind.arity + 1) * kind.arity  # at least one spare slot, for writes that are skipped
        self.offsets = tuple(sum(sizes[:k]) for k in range(len(sizes)))
        self.weight = zeros((lanes, padded), torch.float32, self.device)
        self.label = zeros((lanes, padded if strata > 1 else 0), torch.uint8, self.device)
        self.sums = zeros((lanes, strata, sum(sizes)), torch.float64, self.device)
        self.generation = zeros((lanes, padded), torch.int32, self.device)
        """FIRST for a slot never written; increases whenever a slot is written or emptied."""
        self.generation.fill_(FIRST)
        self._issued = 0
        """Added to the generations in tickets, so that they exceed all tickets issued before other contents were
        loaded."""
        self.clear()
        self.nodes = TreeTensors(self.weight, self.label, self.sums, self.generation, self.offsets, slots)
        self.operations = kind.operations(self.nodes)
        one = torch.ones(lanes, 1, dtype=torch.float64, device=self.device)
        self._no_gate = LossGate(torch.zeros(lanes, 0, dtype=torch.float32, device=self.device), one, one)

    @property
    def total(self) -> Tensor:
        """float64[L, S]: the sum of weights per stratum."""
        return self.sums[:, :, self.offsets[-1] :].sum(-1)

    def sample(
        self, streams: Streams, stratum: Tensor, count: Tensor, beta: Tensor, gate: LossGate | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw one slot for each entry of `stratum` uint8[L, B], with its importance weight and its ticket.

        count float64[L, S]: experiences per stratum; beta float64[L, 1]. Returns slots int64[L, B], weights
        float32[L, B]: (count·p)^(−β), p within the stratum, divided by the largest of the lane's batch, times the gate,
        and the slots' generations int32[L, B].
        """
        slots, weight, ticket = self.operations.sample(
            streams, Stream.DRAW, stratum, count, beta, gate or self._no_gate
        )
        return slots, weight, ticket + self._issued if self._issued else ticket

    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
        """One slot per uniform, with replacement, in proportion to weight within its stratum.

        uniform float64[L, B] in [0, 1), stratum uint8[L, B] → slots int64[L, B], share of the stratum's total
        float64[L, B]. For a stratum whose total is zero the result is meaningless.
        """
        return self.operations.draw(uniform, stratum)

    def learn(self, slots: Tensor, magnitude: Tensor, rule: PriorityRule, ticket: Tensor | None = None) -> None:
        """New weights for slots int64[L, B] from |TD error| float32[L, B], except where a slot's generation is not its
        ticket int32[L, B]. None: for what the slots hold now.
        """
        if ticket is None:
            ticket = self.generation.gather(1, slots.clamp(0, self.slots))
        elif self._issued:
            ticket = ticket - self._issued
        self.operations.learn(slots, ticket, magnitude, rule)

    def set(self, slots: Tensor, weight: Tensor, label: Tensor) -> None:
        """Give slots int64[L, B] a weight float32[L, B] and a label uint8[L, B]; a negative slot is skipped.

        Where a slot occurs twice the last one counts (on CUDA: one of them).
        """
        self.operations.set(slots, weight, label)

    def commit(
        self, slots: Tensor, rule: PriorityRule, columns: SlotColumns | None = None, c: Tensor | None = None
    ) -> None:
        """Give new experiences in slots int64[L, M] the rule's largest priority; negative slots are skipped.

        `columns` are written, too, if given; then c float32[L, 1 or M] (None: 0) decides the stratum of new
        experiences. Otherwise all belong to the first.
        """
        self.operations.commit(slots, rule, columns, c)

    def bump(self, slots: Tensor) -> None:
        """Raise the generation of slots int64[L, B], so that updates of earlier draws skip them; negative: skipped."""
        bump(self.generation, slots)

    def drawable(self, slots: Tensor) -> Tensor:
        """bool[L, B]: whether slots int64[L, B] have a positive weight; unknown slots have none."""
        known = (slots >= 0) & (slots < self.slots)
        return known & (self.weight.gather(1, slots.clamp(0, self.slots)) > 0)

    def rebuild(self) -> None:
        """Recompute all sums after `weight` and `label` were written directly."""
        self.operations.rebuild()

    def clear(self) -> None:
        self.weight.zero_()
        self.label.fill_(UNLABELLED)
        self.sums.zero_()
        self.generation += self.generation > FIRST  # updates of earlier draws are skipped

    def forget_draws(self) -> None:
        """Let `learn` skip all earlier draws, whatever generations are loaded next."""
        newest = int(self.generation.max())
        self._issued += newest if newest > FIRST else 0

    def check(self) -> None:
        """Raise if a sum differs from a fresh build, a weight is negative or not finite, or a generation impossible."""
        refuse(tree_problems(self.tensors()), AssertionError)
        if bool((self.weight[:, self.slots :] != 0).any()):
            raise AssertionError("draw weights: wanted 0 for padding, got others")
        kept = self.sums.clone()
        self.rebuild()
        if not (torch.equal(kept, self.sums) if self._ordered else torch.allclose(kept, self.sums, rtol=1e-12)):
            raise AssertionError("draw sums: differ from the sums of the weights")

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors of the state, [L, N, …], by their stored names; call `rebuild` after writing them."""
        named = {"slot.weight": self.weight, "slot.claims": self.generation}
        if self.strata > 1:
            named["slot.label"] = self.label
        return {name: tensor[:, : self.slots] for name, tensor in named.items()}

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (self.weight, self.label, self.sums, self.generation))


def _level_sizes(slots: int, arity: int, top: int) -> list[int]:
    """Nodes per level above the leaves, each padded to whole groups of siblings; the last has at most `top` nodes."""
    sizes = [slots // arity + 1]
    while sizes[-1] > top:
        sizes.append(-(-sizes[-1] // arity))
    return [-(-size // arity) * arity for size in sizes]
