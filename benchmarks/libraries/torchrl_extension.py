"""TorchRL's compiled extension, which its prioritized sampler needs.

A wheel of TorchRL is compiled for one version of PyTorch. Where it does not load, it is built from the sources that the
wheel contains. That needs a C++ compiler and ninja, and takes a minute, once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from subprocess import SubprocessError

import torch
import torchrl
from torch.utils import cpp_extension

NAME = "torchrl._torchrl"
SOURCES = ("pybind.cpp", "utils.cpp")


def load() -> tuple[bool, str]:
    """Whether it is available, and how it was built, in words. Call it before importing `torchrl.data`."""
    try:
        import_module(NAME)
    except ImportError:
        return _build()
    return True, "extension as shipped"


def _build() -> tuple[bool, str]:
    against = f"torch {torch.__version__}"
    sources = [str(Path(torchrl.__file__).parent / "csrc" / file) for file in SOURCES]
    folder = Path(cpp_extension.get_default_build_root()) / f"torchrl-{version('torchrl')}-torch-{torch.__version__}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        sys.modules[NAME] = cpp_extension.load("_torchrl", sources, extra_cflags=["-O3"], build_directory=str(folder))
    except (ImportError, OSError, RuntimeError, SubprocessError) as error:
        why = str(error).strip().partition("\n")[0]
        print(
            "TorchRL's PrioritizedSampler is missing, so the comparison is with its uniform buffer: its compiled "
            f"extension does not load with {against}, and building it from the wheel's source failed ({why}).",
            file=sys.stderr,
        )
        return False, f"no extension: that of the wheel does not load with {against}"
    return True, f"extension built from the wheel's source against {against}"
