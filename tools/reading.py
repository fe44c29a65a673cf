"""How much a walk through the source costs, and whether it leaves anything out; see `walks.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tools.call_graph import Reader
from tools.source_index import Class, Function, Module, Package, Part


@dataclass(frozen=True)
class Walk:
    """A walk and its goal. Protocols are contracts."""

    files: int
    """Largest number of files."""
    lines: int
    """Largest number of lines."""
    tree: str
    concrete: str = ""
    """Classes that the walk is about: a call of a base's method is one of theirs."""
    contracts: str = ""
    """Contracts of this walk, in addition to `CONTRACTS`."""


@dataclass(frozen=True)
class Step:
    """One line of a walk."""

    depth: int
    what: Part

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
    """Steps whose caller, as the walk has it, does not name them, or that are not met by following the code."""
    undeclared: list[str]
    """What a function of the walk uses that is neither in the walk nor a contract."""
    unused: list[str]
    """Contracts of the walk that nothing in it uses."""


def listed(text: str) -> list[str]:
    """The lines of a text without comments and blank lines."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def steps_of(walk: Walk, package: Package) -> list[Step]:
    """The lines of a walk; a function or class may come only once."""
    lines = [line for line in walk.tree.splitlines() if line.strip()]
    parts = package.find_all([line.strip() for line in lines])
    found = [Step(len(line) - len(line.lstrip()), part) for line, part in zip(lines, parts, strict=True)]
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


def measure(walk: Walk, package: Package, contracts: str) -> Measured:
    """Follow a walk through the source; `contracts` hold for every walk."""
    steps, reader = steps_of(walk, package), reader_for(walk, package)
    undeclared, used = completeness(steps, reader, listed(contracts + walk.contracts))
    met = in_reading_order(steps, reader)
    return Measured(
        files=list(dict.fromkeys(step.path for step in steps)),
        lines=len({(step.path, line) for step in steps for line in span(step.what)}),
        returns=list(returns_in(met)),
        uncalled=[str(step) for step, caller in callers_of(steps) if caller and not names(caller, step)]
        + [str(step) for step in steps if step.what not in {each.what for each in met}],
        undeclared=undeclared,
        unused=[place for place in listed(walk.contracts) if place not in used],
    )


def span(what: Part) -> range:
    """The lines of a function or class."""
    first = min([what.node.lineno, *(decorator.lineno for decorator in what.node.decorator_list)])
    return range(first, (what.node.end_lineno or first) + 1)


def reader_for(walk: Walk, package: Package) -> Reader:
    return Reader(package, [part for part in package.find_all(listed(walk.concrete)) if isinstance(part, Class)])


def in_reading_order(steps: list[Step], reader: Reader) -> list[Step]:
    """The steps as they are met if every call is followed where it stands, whatever the order in which a walk lists
    them: each step once, below the first function that calls it. Arguments are read before the call they belong to.
    """
    listed_below: dict[Part, list[Step]] = {}
    for step, caller in callers_of(steps):
        if caller is not None:
            listed_below.setdefault(caller.what, []).append(step)
    met: dict[Part, Step] = {}

    def meet(part: Part, depth: int) -> None:
        if part in met:
            return
        met[part] = Step(depth, part)
        for function in functions_of([part]):
            for node in evaluated(function.node.body):
                found = {use.target for use in reader.used(node, function)}
                mentioned = [step.what for step in listed_below.get(part, []) if wanted_names(step) & {name_in(node)}]
                for each in [*(step.what for step in steps if owned(step.what, found)), *mentioned]:
                    meet(each, depth + 1)

    for step, caller in callers_of(steps):
        if caller is None:
            meet(step.what, 0)
    return list(met.values())


def owned(part: Part, found: set[Part]) -> bool:
    """Whether one of the functions and classes found is this one, or a method of this class."""
    return part in found or any(isinstance(each, Function) and each.owner is part for each in found)


def evaluated(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of some statements, inner ones first; the name of a function that is called is not one of its own."""
    for node in nodes:
        if isinstance(node, ast.Call):
            function = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            yield from evaluated([*function, *node.args, *node.keywords])
        else:
            yield from evaluated(ast.iter_child_nodes(node))
        yield node


def name_in(node: ast.AST) -> str:
    """The last name of x, x.name, or of the function in a call; empty for anything else."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def returns_in(steps: list[Step]) -> Iterator[str]:
    """Steps into a file that was left before, unless their caller is in it. The caller of a root is the user, whose
    place is the files of the roots before."""
    opened: set[str] = set()
    roots: set[str] = set()
    last = ""
    for step, caller in callers_of(steps):
        callers = roots if caller is None else {caller.path}
        if step.path in opened and step.path != last and step.path not in callers:
            yield str(step)
        opened.add(step.path)
        if caller is None:
            roots.add(step.path)
        last = step.path


def names(caller: Step, step: Step) -> bool:
    """Whether the caller's code has the step's name in it: for a constructor the class's, and `learn` for `_learn`."""
    if step.what.name.endswith(".__call__"):
        return True  # an object that is called need not have a telling name
    return bool(wanted_names(step) & set(re.findall(r"\w+", ast.unparse(caller.what.node))))


def wanted_names(step: Step) -> set[str]:
    outer, _, inner = step.what.name.rpartition(".")
    return {outer} if inner == "__init__" else {inner, inner.lstrip("_")}


def completeness(steps: list[Step], reader: Reader, contracts: list[str]) -> tuple[list[str], set[str]]:
    """What the functions of a walk use that is neither in it nor a contract, and the contracts that they use."""
    inside = [step.what for step in steps]
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


def functions_of(parts: list[Part]) -> Iterator[Function]:
    for part in parts:
        yield from [part] if isinstance(part, Function) else part.methods.values()


def within(target: Part, inside: list[Part]) -> bool:
    """Whether a step is the target or the class it belongs to."""
    owner = target.owner if isinstance(target, Function) else None
    return any(part is target or part is owner for part in inside)


def is_protocol(target: Part) -> bool:
    return isinstance(target, Function) and target.owner is not None and target.owner.is_protocol


def covers(place: str, target: Part) -> bool:
    """Whether a contract is the target, or the class, file or folder that it is in."""
    name = str(target)
    return name == place or name.startswith((f"{place}::", f"{place}.") if not place.endswith("/") else place)


def untrustworthy(contracts: list[str], package: Package) -> list[str]:
    """Contracts that cannot be taken at their word: those that do not exist, private ones, and those without a
    docstring. A constructor is documented by its class, a folder by its package."""
    return [place for place in dict.fromkeys(contracts) if not _documented(place, package)]


def _documented(place: str, package: Package) -> bool:
    found = package.find(f"{place}__init__.py" if place.endswith("/") else place)
    if isinstance(found, Function) and found.owner is not None and found.node.name == "__init__":
        found = found.owner
    if found is None or (not isinstance(found, Module) and found.node.name.startswith("_")):
        return False
    return bool(ast.get_docstring(found.tree if isinstance(found, Module) else found.node))


def show(walks: Mapping[str, Walk], contracts: str, package: Package) -> int:
    """Print what each walk costs; 1 if one is over its goal or left something out."""
    console, wrong = Console(), False
    table = Table("walk", "files / goal", "lines / goal", "returns", "undeclared")
    for name, walk in walks.items():
        found = measure(walk, package, contracts)
        wrong |= len(found.files) > walk.files or found.lines > walk.lines or bool(found.undeclared or found.uncalled)
        files, lines = f"{len(found.files)} / {walk.files}", f"{found.lines} / {walk.lines}"
        table.add_row(name, files, lines, str(len(found.returns)), str(len(found.undeclared)))
        for kind in ("returns", "uncalled", "undeclared", "unused"):
            for item in getattr(found, kind):
                console.print(f"{name}: {kind}: {item}", highlight=False, soft_wrap=True)
    console.print(table)
    return int(wrong)
