"""Continual-learning methods: plain replay, elastic weight consolidation, distillation of stored outputs."""

from crystalrl.methods.base import Method
from crystalrl.methods.distill import Distill, DistillParams
from crystalrl.methods.ewc import EWC, EWCParams

__all__ = ["EWC", "Distill", "DistillParams", "EWCParams", "Method"]
