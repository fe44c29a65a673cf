"""The functions and classes of a package, read from the source alone: nothing is imported or run."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """A function or method, named path::qualified.name; the path is relative to the package."""

    path: str
    name: str
    node: FunctionNode = field(compare=False, repr=False)
    owner: Class | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.path}::{self.name}"

    @property
    def is_property(self) -> bool:
        return any("property" in ast.unparse(decorator) for decorator in self.node.decorator_list)


@dataclass(eq=False)
class Class:
    """A class with its own methods; `attributes` are expressions or annotations that tell an attribute's type."""

    module: Module
    name: str
    node: ast.ClassDef
    methods: dict[str, Function] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.module.path

    def __str__(self) -> str:
        return f"{self.path}::{self.name}"

    @property
    def marks(self) -> set[str]:
        """Names of decorators and bases, without their modules and arguments."""
        marks = [d.func if isinstance(d, ast.Call) else d for d in self.node.decorator_list] + self.node.bases
        bare = [mark.value if isinstance(mark, ast.Subscript) else mark for mark in marks]
        return {ast.unparse(mark).rpartition(".")[2] for mark in bare}

    @property
    def is_protocol(self) -> bool:
        return "Protocol" in self.marks


@dataclass(eq=False)
class Module:
    """A file: what it defines, and what its names mean that it imports."""

    path: str
    dotted: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)


Part = Function | Class
Found = Part | Module


class Package:
    """All modules below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        self.modules: dict[str, Module] = {}
        for path in sorted(folder.rglob("*.py")):
            module = read_module(path, folder)
            self.modules[module.dotted] = module

    @cached_property
    def paths(self) -> dict[str, Module]:
        return {module.path: module for module in self.modules.values()}

    @cached_property
    def classes(self) -> list[Class]:
        return [each for module in self.modules.values() for each in module.classes.values()]

    def find(self, place: str) -> Found | None:
        """What path::qualified.name, or a path alone, names."""
        path, _, name = place.partition("::")
        module = self.paths.get(path)
        if module is None or not name:
            return module
        outer, _, inner = name.partition(".")
        if inner and outer in module.classes:
            return module.classes[outer].methods.get(inner)
        return module.functions.get(name) or module.classes.get(name)

    def find_all(self, places: list[str]) -> list[Part]:
        """The functions and classes of these names; an error lists all names that do not exist."""
        found = {place: self.find(place) for place in places}
        missing = [place for place, part in found.items() if not isinstance(part, Function | Class)]
        if missing:
            raise ValueError(f"{self.folder}: wanted functions and classes, found none named {', '.join(missing)}")
        return [part for place in places if isinstance(part := found[place], Function | Class)]

    def named(self, dotted: str) -> Found | None:
        """What a dotted name means, through imports of imports; None if it is not the package's."""
        if dotted in self.modules:
            return self.modules[dotted]
        outer, _, name = dotted.rpartition(".")
        if not outer.startswith(self.name):
            return None
        home = self.named(outer)
        return self.member(home, name) if isinstance(home, Module) else None

    def member(self, module: Module, name: str) -> Found | None:
        """What a name means in a module."""
        own = module.functions.get(name) or module.classes.get(name)
        if own is not None:
            return own
        inner = self.modules.get(f"{module.dotted}.{name}")
        return inner or (self.named(module.imports[name]) if name in module.imports else None)

    def reach(self, module: Module) -> set[str]:
        """Paths of the modules that a module imports, directly or through others, and its own."""
        found: dict[str, Module] = {}
        waiting = [module]
        while waiting:
            current = waiting.pop()
            if current.path not in found:
                found[current.path] = current
                waiting += [home for target in current.imports.values() if (home := self._home(target)) is not None]
        return set(found)

    def _home(self, dotted: str) -> Module | None:
        """The module that a dotted name is, or is in."""
        return self.modules.get(dotted) or self.modules.get(dotted.rpartition(".")[0])

    def bases(self, cls: Class) -> list[Class]:
        """The class and its ancestors in the package, nearest first."""
        found = [cls]
        for base in cls.node.bases:
            bare = base.value if isinstance(base, ast.Subscript) else base
            parent = self.expression(bare, cls.module)
            if isinstance(parent, Class):
                found += [each for each in self.bases(parent) if each not in found]
        return found

    def expression(self, node: ast.expr, module: Module) -> Found | None:
        """What a name or a dotted name means at the top of a module."""
        if isinstance(node, ast.Name):
            return self.member(module, node.id)
        if isinstance(node, ast.Attribute):
            home = self.expression(node.value, module)
            return self.member(home, node.attr) if isinstance(home, Module) else None
        return None

    def method(self, cls: Class, name: str, after: Class | None = None) -> Function | None:
        """The method of that name that objects of the class have; `after`: as `super()` in that class finds it."""
        family = self.bases(cls)
        if after is not None:
            family = family[family.index(after) + 1 :]
        return next((each.methods[name] for each in family if name in each.methods), None)

    def annotated(self, node: ast.expr | None, module: Module) -> Class | None:
        """The class of the package that an annotation names: X, X | None, type[X]; the first one of several."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.annotated(ast.parse(node.value, mode="eval").body, module)
        if isinstance(node, ast.BinOp):
            return self.annotated(node.left, module) or self.annotated(node.right, module)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Optional", "Final", "ClassVar"):
            return self.annotated(node.slice, module)
        found = self.expression(node, module) if node is not None else None
        return found if isinstance(found, Class) else None


def read_module(path: Path, folder: Path) -> Module:
    """Parse one file."""
    inner = path.relative_to(folder)
    dotted = ".".join([folder.name, *inner.with_suffix("").parts]).removesuffix(".__init__")
    module = Module(inner.as_posix(), dotted, ast.parse(path.read_text(), str(path)))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            module.imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            module.imports |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
    for node in module.tree.body:
        if isinstance(node, FunctionNode):
            module.functions[node.name] = Function(module.path, node.name, node)
        elif isinstance(node, ast.ClassDef):
            cls = module.classes[node.name] = Class(module, node.name, node)
            for part in node.body:
                if isinstance(part, FunctionNode) and part.name not in cls.methods:
                    cls.methods[part.name] = Function(module.path, f"{cls.name}.{part.name}", part, cls)
    return module
