"""Agents that train many lanes at once. They use batches with weights and anchors, and are independent of memories."""

from crystalrl.agents.base import Agent, AgentParams, Spaces, Update
from crystalrl.agents.dqn import DQN, DQNParams
from crystalrl.agents.nec import NEC, NECParams
from crystalrl.agents.rainbow import Rainbow, RainbowParams
from crystalrl.agents.sac import SAC, SACParams
from crystalrl.agents.td3 import TD3, TD3Params

__all__ = [
    "DQN",
    "NEC",
    "SAC",
    "TD3",
    "Agent",
    "AgentParams",
    "DQNParams",
    "NECParams",
    "Rainbow",
    "RainbowParams",
    "SACParams",
    "Spaces",
    "TD3Params",
    "Update",
]
