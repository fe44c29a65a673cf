"""How much must be read to follow one thing through the code?

    python -m tools.walks [NAME …]

A walk is the call tree of what a reader meets, in reading order: one function or class per line, indented below the
function that calls it. It stops at contracts: documented functions and classes that can be taken at their word.

How it counts. Lines: physical lines of the functions and classes named, from the first decorator to the end, with
docstrings and blank lines, each once. Files: distinct files. Returns: how often the reader is sent to a file that was
opened before, other than the file of the caller. Nothing may be left out: whatever a function of a walk uses must be in
the walk or be a contract. `tests/tools/test_walks.py` holds the walks to their goals.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.call_graph import Reader
from tools.source_index import Class, Found, Function, Module, Package

SOURCE = Path(__file__).parents[1] / "src" / "crystalrl"


@dataclass(frozen=True)
class Walk:
    """A walk and its goal. Protocols are contracts."""

    files: int
    """At most so many."""
    lines: int
    """At most so many."""
    tree: str
    concrete: str = ""
    """Classes that the walk is about: a call of a base's method is one of theirs."""
    contracts: str = ""
    """Contracts of this walk, in addition to `CONTRACTS`."""


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
lanes.py
"""
"""Where every walk stops: folder/, path, path::Class or path::function. All are public and documented."""

CONSOLIDATION = """
memory/crystal/memory.py::CrystalMemory.consolidate
  memory/crystal/memory.py::CrystalMemory.snapshot
    memory/crystal/memory.py::CrystalMemory._all_due
    memory/crystal/memory.py::CrystalMemory._shared
    memory/crystal/snapshot.py::take_snapshot
      memory/crystal/snapshot.py::widths
      memory/crystal/snapshot.py::Columns
      memory/crystal/snapshot.py::chosen_slots
  memory/crystal/consolidate.py::plan
    memory/crystal/consolidate.py::Stages
    memory/crystal/consolidate.py::_utility
      memory/crystal/consolidate.py::_random_near
      memory/crystal/consolidate.py::scaled_error
      memory/crystal/consolidate.py::_mean_over
    memory/crystal/consolidate.py::_interference
      memory/crystal/consolidate.py::back_up
    memory/crystal/consolidate.py::_crystallize
      memory/crystal/consolidate.py::_rates
      memory/crystal/consolidate.py::_settled
      memory/crystal/consolidate.py::_step
    memory/crystal/consolidate.py::_follow
    memory/crystal/consolidate.py::_uniform
    memory/crystal/phases.py::move
      memory/crystal/phases.py::_refuse_beyond_room
      memory/crystal/phases.py::_count_moves
      memory/crystal/phases.py::_evict_contradicted
      memory/crystal/phases.py::_evict_beyond_capacity
        memory/crystal/phases.py::Moves
        memory/crystal/phases.py::_by_age
        memory/crystal/phases.py::_rank
    memory/crystal/consolidate.py::_like
  memory/crystal/memory.py::CrystalMemory.apply
    memory/crystal/consolidate.py::write
"""
CONSOLIDATION_CONTRACTS = """
# the critic, in chunks, its answers checked; visits to cells; the ledger; the report
memory/crystal/evaluate.py::evaluate_all
memory/crystal/novelty.py
memory/crystal/ledger.py
memory/crystal/report.py
# what a consolidation sees of a memory
memory/neighbours/view.py
# k nearest neighbours from all pairs
memory/neighbours/exact.py
"""

WALKS: dict[str, Walk] = {
    "one gradient step": Walk(
        3,
        200,
        """
study/run.py::run
  study/run.py::interact
    study/run.py::Trainer.collect
      study/run.py::Trainer._step_world
  study/run.py::Trainer._learn
    agents/dqn.py::DQN.update
      agents/dqn.py::DQN.loss
        agents/dqn.py::DQN._td_errors
          agents/dqn.py::DQN.td_target
        losses.py::weighted_mean
        losses.py::huber
        losses.py::anchor_losses
          losses.py::anchor_loss
            losses.py::squared_error
        losses.py::with_penalty
  study/run.py::_curve_step
""",
        concrete="agents/dqn.py::DQN",
        contracts="""
# what else happens between two gradient steps
study/run.py::Trainer.__init__
study/run.py::Trainer.begin
study/run.py::Trainer.end
study/run.py::Trainer.incidents
study/run.py::Trainer.score_all
study/run.py::Trainer.score_current
study/plan.py::Group
study/cuda_graph.py::Captured
agents/dqn.py::DQN.evaluate
agents/base.py::require_tensor
methods/base.py::Method
""",
    ),
    "add, sample, update": Walk(
        4,
        420,
        """
memory/crystal/memory.py::CrystalMemory.add
  memory/crystal/memory.py::CrystalMemory._width
  memory/crystal/memory.py::CrystalMemory._checked_c
  memory/crystal/memory.py::CrystalMemory._flag
  memory/crystal/memory.py::CrystalMemory._add_crystallized
  memory/base.py::ReplayMemory.add
    memory/base.py::ReplayMemory._add_single
      memory/crystal/ledger.py::CrystalLedger.add_one
    memory/base.py::ReplayMemory._add_rows
      memory/base.py::ReplayMemory._mask
      memory/base.py::ReplayMemory._outer
      memory/base.py::ReplayMemory._outer_windows
      memory/base.py::ReplayMemory._store
        memory/crystal/ledger.py::CrystalLedger.allocate
    memory/crystal/ledger.py::CrystalLedger.commit
      memory/crystal/ledger.py::CrystalLedger._write
        memory/crystal/ledger.py::CrystalLedger._phase_of
  memory/crystal/ledger.py::CrystalLedger.reserve
    memory/crystal/ledger.py::CrystalLedger.rebuild_queue
      memory/crystal/ledger.py::CrystalLedger.phase
    memory/crystal/ledger.py::CrystalLedger.refresh_strata
      memory/crystal/ledger.py::CrystalLedger._quota
memory/crystal/memory.py::CrystalMemory.sample
  memory/base.py::ReplayMemory._refuse_size
    memory/crystal/ledger.py::CrystalLedger.count
  memory/crystal/ledger.py::CrystalLedger.draw
memory/base.py::ReplayMemory.update
  memory/base.py::ReplayMemory._checked_update
    memory/base.py::ReplayMemory._examined
    memory/crystal/ledger.py::CrystalLedger.holds
  memory/crystal/ledger.py::CrystalLedger.update
""",
        concrete="memory/crystal/memory.py::CrystalMemory",
        contracts="""
# the payload of drawn slots; the targets of their anchors
memory/storage/batches.py::gather_batch
memory/crystal/anchors.py::Anchors
memory/prioritized.py::annealed
""",
    ),
    "consolidation": Walk(
        4,
        500,
        CONSOLIDATION,
        concrete="memory/crystal/memory.py::CrystalMemory",
        contracts=f"{CONSOLIDATION_CONTRACTS}memory/neighbours/neighbourhood.py::Neighbours",
    ),
    "consolidation with kept lists": Walk(
        6,
        700,
        f"""{CONSOLIDATION}
  memory/neighbours/neighbourhood.py::Neighbours.refresh
    memory/neighbours/neighbourhood.py::Neighbours._with_lists
    memory/neighbours/neighbourhood.py::Neighbours._found
      memory/neighbours/neighbourhood.py::Neighbours.empty_graph
        memory/neighbours/graph.py::NeighbourGraph.__init__
          memory/neighbours/graph.py::NeighbourGraph._empty_index
          memory/neighbours/graph.py::NeighbourGraph._empty_lists
      memory/neighbours/graph.py::NeighbourGraph.refresh
        memory/neighbours/graph.py::NeighbourGraph._drop
          memory/neighbours/graph.py::NeighbourGraph._lists
        memory/neighbours/graph.py::NeighbourGraph._update
          memory/neighbours/graph.py::NeighbourGraph._update_index
          memory/neighbours/graph.py::NeighbourGraph._offer_adjacent
            memory/neighbours/graph.py::NeighbourGraph._offer
          memory/neighbours/graph.py::NeighbourGraph._to_renew
          memory/neighbours/graph.py::NeighbourGraph._refine
            memory/neighbours/graph.py::NeighbourGraph._query
            memory/neighbours/graph.py::NeighbourGraph._insert
              memory/neighbours/graph.py::NeighbourGraph._farthest
              memory/neighbours/graph.py::NeighbourGraph._successor_distance
            memory/neighbours/graph.py::NeighbourGraph._insert_similar
              memory/neighbours/graph.py::NeighbourGraph._offer_grouped
              memory/neighbours/graph.py::NeighbourGraph._similarity
""",
        concrete="memory/crystal/memory.py::CrystalMemory",
        contracts=f"""{CONSOLIDATION_CONTRACTS}
# all pairs, where they are few; scales of distances and rewards; which rewards contradict
memory/neighbours/all_pairs.py
memory/neighbours/epsilon.py
memory/neighbours/contradiction.py
# the index; lists and how they improve; vectors of states; order of the steps
memory/neighbours/index.py
memory/neighbours/lists.py
memory/neighbours/refine.py
memory/neighbours/states.py
memory/neighbours/features.py
memory/neighbours/steps.py
""",
    ),
    "SB3 buffer and callback": Walk(
        5,
        500,
        """
integrations/sb3/callback.py::Consolidate
  integrations/sb3/buffers.py::CrystalReplayBuffer
    integrations/sb3/buffers.py::MemoryReplayBuffer
      integrations/sb3/buffers.py::_normalise
      integrations/sb3/hooks.py::Hooks
        integrations/sb3/hooks.py::strength
        integrations/sb3/hooks.py::kl_gradient
    integrations/_common.py::anchored
    integrations/_common.py::consolidate
""",
        concrete="integrations/sb3/buffers.py::CrystalReplayBuffer",
        contracts="""
# what is different between SB3's algorithms; what cannot be done is refused
integrations/sb3/adapters.py
integrations/sb3/checks.py
# the memory
memory/
""",
    ),
    "command line to learner": Walk(
        8,
        500,
        """
cli/__init__.py::main
  cli/__init__.py::take_sections
    cli/__init__.py::parse_choice
      cli/__init__.py::_parse
  cli/__init__.py::_dispatch
    study/registry.py::check
      study/registry.py::check_suite
      study/registry.py::kinds_of
      study/registry.py::_check_settings
    cli/__init__.py::_run_tables
      study/definition.py::Table.runs
        study/definition.py::Table._seeds
          study/definition.py::Table.tuned
      study/plan.py::plan
        study/plan.py::_lanes
          study/plan.py::stage_order
            study/plan.py::stage_tasks
        study/plan.py::_structure
        study/plan.py::_group
          study/plan.py::_values
            study/plan.py::_column
      study/execution.py::Execution.events
        study/execution.py::prepare
        study/execution.py::execute
          study/execution.py::pending
          study/run.py::Trainer.__init__
            study/registry.py::make_suite
            study/registry.py::make_agent
            study/registry.py::make_memory
            study/registry.py::make_method
          study/execution.py::recorded
    cli/__init__.py::_list
      cli/__init__.py::_about
    cli/__init__.py::_demo
""",
        contracts="""
# specs and studies as data; stored results
study/spec.py
study/definition.py
study/budget.py
study/store.py
study/checkpoints.py
study/recorder.py
study/metrics.py
study/loggers.py
# other commands; the display
cli/theory/
cli/terminal.py
cli/progress.py
study/tuning.py
report/
study/registry.py::presets
study/execution.py::best_device
study/execution.py::execute_ray
# what is built
study/run.py::Trainer
study/run.py::run
study/plan.py::Group
study/registry.py::MemoryKind
study/registry.py::Kind
study/cuda_graph.py
suites/
agents/
methods/
memory/
""",
    ),
}


@dataclass(frozen=True)
class Step:
    """One line of a walk."""

    depth: int
    what: Function | Class

    @property
    def path(self) -> str:
        return self.what.path

    def __str__(self) -> str:
        return str(self.what)


@dataclass(frozen=True)
class Measured:
    """What a walk costs, and what is wrong with it."""

    files: list[str]
    lines: int
    returns: list[str]
    """Steps that send the reader back to a file."""
    uncalled: list[str]
    """Steps whose caller, as the walk has it, does not name them."""
    undeclared: list[str]
    """What a function of the walk uses that is neither in the walk nor a contract."""
    unused: list[str]
    """Contracts of the walk that nothing in it uses."""


def listed(text: str) -> list[str]:
    """The lines of a text without comments and blank lines."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def steps_of(walk: Walk, package: Package) -> list[Step]:
    """The lines of a walk; a function or class may come only once."""
    found: list[Step] = []
    for line in walk.tree.splitlines():
        if line.strip():
            what = package.find(line.strip())
            if isinstance(what, Module):
                raise ValueError(f"{line.strip()}: wanted a function or class, got a module")
            found.append(Step(len(line) - len(line.lstrip()), what))
    repeated = sorted({str(step) for step in found if sum(step.what is other.what for other in found) > 1})
    if repeated:
        raise ValueError(f"walk: wanted each step once, got {', '.join(repeated)} more than once")
    return found


def callers_of(steps: list[Step]) -> Iterator[tuple[Step, Step | None]]:
    """Each step with the nearest one above it that is indented less."""
    above: list[Step] = []
    for step in steps:
        while above and above[-1].depth >= step.depth:
            above.pop()
        yield step, above[-1] if above else None
        above.append(step)


def measure(walk: Walk, package: Package) -> Measured:
    """Follow a walk through the source."""
    steps = steps_of(walk, package)
    undeclared, used = completeness(steps, walk, package)
    return Measured(
        files=list(dict.fromkeys(step.path for step in steps)),
        lines=len({(step.path, line) for step in steps for line in span(step.what)}),
        returns=list(returns_in(steps)),
        uncalled=[str(step) for step, caller in callers_of(steps) if caller is not None and not names(caller, step)],
        undeclared=undeclared,
        unused=[place for place in listed(walk.contracts) if place not in used],
    )


def span(what: Function | Class) -> range:
    """The lines of a function or class."""
    first = min([what.node.lineno, *(decorator.lineno for decorator in what.node.decorator_list)])
    return range(first, (what.node.end_lineno or first) + 1)


def returns_in(steps: list[Step]) -> Iterator[str]:
    """Steps into a file that was left before, unless their caller is in it, or they begin a call tree."""
    opened: set[str] = set()
    last = ""
    for step, caller in callers_of(steps):
        if caller is not None and step.path in opened and step.path not in (last, caller.path):
            yield str(step)
        opened.add(step.path)
        last = step.path


def names(caller: Step, step: Step) -> bool:
    """Whether the caller's code has the step's name in it: for a constructor the class's, and `learn` for `_learn`."""
    outer, _, inner = step.what.name.rpartition(".")
    if inner == "__call__":
        return True  # an object that is called need not have a telling name
    wanted = {outer} if inner == "__init__" else {inner, inner.lstrip("_")}
    return bool(wanted & set(re.findall(r"\w+", ast.unparse(caller.what.node))))


def completeness(steps: list[Step], walk: Walk, package: Package) -> tuple[list[str], set[str]]:
    """What the functions of a walk use that is neither in it nor a contract, and the contracts that they use."""
    concrete = [cls for place in listed(walk.concrete) if isinstance(cls := package.find(place), Class)]
    reader, inside = Reader(package, concrete), [step.what for step in steps]
    contracts = listed(CONTRACTS + walk.contracts)
    for place in contracts:
        contract_of(place, package)  # an error if there is none
    undeclared, used = [], set()
    for function in functions_of(inside):
        for candidates in reader.uses(function):
            if any(within(use.target, inside) for use in candidates):
                continue
            met = {place for use in candidates for place in contracts if covers(place, use.target)}
            used |= met
            if not met and not any(is_protocol(use.target) for use in candidates):
                more = f" (or {len(candidates) - 1} others of that name)" if len(candidates) > 1 else ""
                undeclared.append(f"{function} uses {candidates[0].target}{more}")
    return undeclared, used


def functions_of(parts: list[Function | Class]) -> Iterator[Function]:
    for part in parts:
        yield from [part] if isinstance(part, Function) else part.methods.values()


def within(target: Function | Class, inside: list[Function | Class]) -> bool:
    """Whether a step is the target or the class it belongs to."""
    owner = target.owner if isinstance(target, Function) else None
    return any(part is target or part is owner for part in inside)


def is_protocol(target: Function | Class) -> bool:
    return isinstance(target, Function) and target.owner is not None and target.owner.is_protocol


def covers(place: str, target: Function | Class) -> bool:
    """Whether a contract is the target, or the class, file or folder that it is in."""
    name = str(target)
    return name == place or name.startswith((f"{place}::", f"{place}.") if not place.endswith("/") else place)


def contract_of(place: str, package: Package) -> Found | None:
    """What a contract names; None for a folder."""
    if not place.endswith("/"):
        return package.find(place)
    if not (package.folder / place).is_dir():
        raise ValueError(f"{place}: wanted a folder of {package.folder}, found none")
    return None


def undocumented(package: Package) -> list[str]:
    """Contracts that cannot be taken at their word: private ones, and those without a docstring. A constructor is
    documented by its class."""
    wrong = []
    for place in dict.fromkeys(listed(CONTRACTS + "".join(walk.contracts for walk in WALKS.values()))):
        found = contract_of(place, package)
        if found is None:
            continue
        name = place.partition("::")[2].rpartition(".")[2]
        if name == "__init__" and isinstance(found, Function) and found.owner is not None:
            name, found = found.owner.name, found.owner
        node = found.tree if isinstance(found, Module) else found.node
        if name.startswith("_") or not ast.get_docstring(node):
            wrong.append(place)
    return wrong


def main(chosen: list[str], source: Path = SOURCE) -> int:
    """Print what each walk costs; 1 if one is over its goal or left something out."""
    console, package, wrong = Console(), Package(source), False
    table = Table("walk", "files / goal", "lines / goal", "returns", "undeclared")
    for name in chosen or WALKS:
        walk, found = WALKS[name], measure(WALKS[name], package)
        over = len(found.files) > walk.files or found.lines > walk.lines
        wrong |= over or bool(found.undeclared or found.uncalled)
        files, lines = f"{len(found.files)} / {walk.files}", f"{found.lines} / {walk.lines}"
        table.add_row(name, files, lines, str(len(found.returns)), str(len(found.undeclared)))
        for kind in ("returns", "uncalled", "undeclared", "unused"):
            for item in getattr(found, kind):
                console.print(f"{name}: {kind}: {item}", highlight=False, soft_wrap=True)
    console.print(table)
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
