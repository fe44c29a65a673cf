"""Kinds of the things that a spec names, and the methods by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from crystalrl import methods

Values = Mapping[str, Any]


@dataclass(frozen=True)
class NoParams:
    """The settings of a kind that has none."""


@dataclass(frozen=True)
class Kind:
    """One entry: a one-line description, the class of its settings, and which of them may differ between lanes."""

    about: str
    params: type[Any]
    per_lane: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()

    def settings(self, preset: str, values: Values) -> Any:
        """The validated settings."""
        return self.params(**values)

    def lane_numbers(self, preset: str, values: Values) -> dict[str, Any]:
        """Settings that may differ between lanes: name → number, or None if the setting is switched off."""
        settings = self.settings(preset, values)
        return {name: getattr(settings, name) for name in self.per_lane}


@dataclass(frozen=True)
class MethodKind(Kind):
    """A method: its class, which says what it is told about tasks. Per-lane settings are found by their type."""

    method: type[methods.Method] = methods.Method

    def __post_init__(self) -> None:
        found = tuple(f.name for f in fields(self.params) if "PerLane" in str(f.type))
        object.__setattr__(self, "per_lane", found)

    @property
    def needs_boundaries(self) -> bool:
        """Whether it is told when a task ends."""
        return self.method.boundaries

    @property
    def told(self) -> str:
        """Whether it is told when a task ends, and which task it is: no, yes, or yes and ids."""
        boundaries = "yes" if self.method.boundaries else "no"
        return f"{boundaries}, and ids" if self.method.ids else boundaries


METHODS: dict[str, MethodKind] = {
    "none": MethodKind("no additional method", NoParams),
    "ewc": MethodKind(
        "penalises changes of parameters that mattered for old tasks", methods.EWCParams, method=methods.EWC
    ),
    "l2": MethodKind("penalises all changes of parameters after a task", methods.L2Params, method=methods.L2),
    "si": MethodKind("penalises changes of parameters that lowered the loss", methods.SIParams, method=methods.SI),
    "mas": MethodKind("penalises changes of parameters that move the outputs", methods.MASParams, method=methods.MAS),
    "agem": MethodKind("no step against the gradient of old tasks", methods.AGEMParams, method=methods.AGEM),
    "distill": MethodKind(
        "pulls the network towards stored outputs on replayed states", methods.DistillParams, method=methods.Distill
    ),
    "der": MethodKind("replays old experiences through their recorded outputs", methods.DERParams, method=methods.DER),
    "derpp": MethodKind("der, and the TD loss of old experiences", methods.DERPPParams, method=methods.DERPP),
    "clear": MethodKind("clones recorded policy and values in replay", methods.CLEARParams, method=methods.CLEAR),
    "clonex": MethodKind(
        "clones the outputs at kept experiences of each task, explores with old heads",
        methods.ClonExParams,
        method=methods.ClonEx,
    ),
    "recall": MethodKind(
        "normalises the targets of each task, distils old policies", methods.RECALLParams, method=methods.RECALL
    ),
    "her": MethodKind("replays episodes with the goals they achieved", methods.HERParams, method=methods.HER),
    "nec": MethodKind(
        "writes experiences to the dictionary of the agent nec", methods.WriterParams, method=methods.Writer
    ),
    "mir": MethodKind("replays what the next step would damage most", methods.MIRParams, method=methods.MIR),
    "packnet": MethodKind("every task owns a share of the weights", methods.PackNetParams, method=methods.PackNet),
    "pnn": MethodKind("a new column of units for every task", methods.PNNParams, method=methods.PNN),
    "redo": MethodKind("recycles dormant units", methods.ReDoParams, method=methods.ReDo),
    "finetune": MethodKind("empties the memory between tasks", methods.FinetuneParams, method=methods.Finetune),
    "joint": MethodKind("trains on all tasks at once: a reference", methods.JointParams, method=methods.Joint),
}
