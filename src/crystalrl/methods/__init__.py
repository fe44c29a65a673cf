"""Continual-learning methods: baselines of the field, and references. docs/baselines.md describes them."""

from crystalrl.methods.agem import AGEM, AGEMParams
from crystalrl.methods.base import Method, Setup
from crystalrl.methods.clear import CLEAR, CLEARParams
from crystalrl.methods.clonex import ClonEx, ClonExParams
from crystalrl.methods.der import DER, DERParams
from crystalrl.methods.derpp import DERPP, DERPPParams
from crystalrl.methods.distill import Distill, DistillParams
from crystalrl.methods.ewc import EWC, EWCParams
from crystalrl.methods.finetune import Finetune, FinetuneParams
from crystalrl.methods.her import HER, HERParams
from crystalrl.methods.joint import Joint, JointParams
from crystalrl.methods.l2 import L2, L2Params
from crystalrl.methods.mas import MAS, MASParams
from crystalrl.methods.mir import MIR, MIRParams
from crystalrl.methods.nec import Writer, WriterParams
from crystalrl.methods.packnet import PackNet, PackNetParams
from crystalrl.methods.pnn import PNN, PNNParams
from crystalrl.methods.recall import RECALL, RECALLParams
from crystalrl.methods.redo import ReDo, ReDoParams
from crystalrl.methods.si import SI, SIParams

__all__ = [
    "AGEM",
    "CLEAR",
    "DER",
    "DERPP",
    "EWC",
    "HER",
    "L2",
    "MAS",
    "MIR",
    "PNN",
    "RECALL",
    "SI",
    "AGEMParams",
    "CLEARParams",
    "ClonEx",
    "ClonExParams",
    "DERPPParams",
    "DERParams",
    "Distill",
    "DistillParams",
    "EWCParams",
    "Finetune",
    "FinetuneParams",
    "HERParams",
    "Joint",
    "JointParams",
    "L2Params",
    "MASParams",
    "MIRParams",
    "Method",
    "PNNParams",
    "PackNet",
    "PackNetParams",
    "RECALLParams",
    "ReDo",
    "ReDoParams",
    "SIParams",
    "Setup",
    "Writer",
    "WriterParams",
]
