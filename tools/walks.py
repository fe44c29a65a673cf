"""How much code must be read to follow one operation?

    python -m tools.walks [NAME …]

A walk is the call tree of what a reader meets, in reading order: one function or class per line, indented below the
function that calls it. It stops at contracts: documented functions and classes whose code need not be read.

How it counts. Lines: physical lines of the functions and classes named, from the first decorator to the end, with
docstrings and blank lines, each once. Files: distinct files. Returns: how often the reader is sent to a file that was
left before, other than the file of the caller, in all calls of a walk together. A file is left when the next function
is in another file; consecutive calls into one file are one visit. Every call is followed where it stands in the code,
not where the walk lists it. Nothing may be left out: whatever a function of a walk uses must be in the walk or be a
contract. Records, which only hold documented data, are contracts. `tests/tools/test_walks.py` checks the goals.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.reading import show
from tools.source_index import Package
from tools.walk_trees import WALKS

SOURCE = Path(__file__).parents[1] / "src" / "crystalrl"

CONTRACTS = """
# compiled loops, random streams
backends/
random.py
# networks and their optimiser
agents/networks.py
agents/optimiser.py
# payload: where experiences are stored, as rows of bytes
memory/storage/arena.py
memory/storage/external.py
memory/storage/layout.py
memory/storage/nstep.py
memory/storage/pack.py
memory/storage/spec.py
# tree of sums, priorities and the shares of a batch
memory/sampling/
# equations of crystallization, parameters
dynamics.py
params.py
params_checks.py
lifecycle.py
lanes.py
# overlapping calls of two threads are refused
memory/exclusive.py
"""
"""Where every walk stops: folder/, path, path::Class or path::function. All are public and documented."""

if __name__ == "__main__":
    raise SystemExit(show({name: WALKS[name] for name in sys.argv[1:] or WALKS}, CONTRACTS, Package(SOURCE)))
