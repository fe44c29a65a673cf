"""Which functions of a package a function uses, read from the source alone.

Types are followed as far as annotations tell: parameters, attributes, return values, and objects made from a class of
the package. Where the type of an object is unknown, a method is looked up by its name in all modules that the file
imports, directly or not, unless tensors, arrays and containers have a method of that name, too: such a call is taken
for one of theirs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tools.source_index import Class, Found, Function, FunctionNode, Module, Package

ELSEWHERE = {
    name
    for kind in (torch.Tensor, np.ndarray, np.random.Generator, dict, list, set, tuple, str, bytes, Path)
    for name in dir(kind)
}
"""Methods of objects that do not belong to the package."""
PLAIN = {"dataclass", "NamedTuple", "TypedDict", "Enum", "Exception", "ValueError", "RuntimeError", "TypeError"}
"""What marks a class as a record or an error: making one is not a step to follow, unless it runs code of the
package."""


@dataclass(frozen=True)
class Use:
    """A function or class that is used; `sure` is False where only the method's name is known."""

    target: Function | Class
    sure: bool = True


class Reader:
    """Follows what functions use. `concrete` classes stand for their base classes: a call of a base's method is one of
    theirs."""

    def __init__(self, package: Package, concrete: list[Class] | None = None) -> None:
        self.package, self.concrete = package, concrete or []
        self._attributes: dict[tuple[Class, str], Class | None] = {}
        self._types: dict[Function, dict[str, Any]] = {}

    def uses(self, function: Function) -> list[list[Use]]:
        """What a function calls or passes on, in order, each as a list of candidates: one if it is known."""
        found: list[list[Use]] = []
        for node in code_of(function.node):
            candidates = self.used(node, function)
            if candidates and candidates not in found:
                found.append(candidates)
        return found

    def used(self, node: ast.AST, function: Function) -> list[Use]:
        """What one node of a function's code calls or passes on."""
        if function not in self._types:
            self._types[function] = self.types(function)
        return self._candidates(node, self._types[function], self.package.paths[function.path], function)

    def _candidates(self, node: ast.AST, types: dict[str, Any], module: Module, function: Function) -> list[Use]:
        if isinstance(node, ast.Call):
            return self._called(node.func, types, module, function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = self.type_of(node.value, types, module)
            method = self._method(owner, node.attr) if owner is not None else None
            return [Use(method)] if method is not None else []
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in types:
            target = self.package.member(module, node.id)
            return [Use(target)] if isinstance(target, Function) else []
        return []

    def _called(self, node: ast.expr, types: dict[str, Any], module: Module, function: Function) -> list[Use]:
        if is_super(node) and isinstance(node, ast.Attribute) and function.owner is not None:
            found = self.package.method(self._own(function.owner), node.attr, after=function.owner)
            return [Use(found)] if found is not None else []
        target = self._meaning(node, types, module)
        if isinstance(target, Function):
            return [Use(target)]
        if isinstance(target, Class):
            return [Use(self.package.method(target, "__init__") or target)] if self._has_code(target) else []
        if self.type_of(node, types, module) is not None:
            called = self._method(self.type_of(node, types, module), "__call__")
            return [Use(called)] if called is not None else []
        if isinstance(node, ast.Attribute) and self._unknown(node.value, types, module):
            return self._by_name(node.attr, module)
        return []

    def _meaning(self, node: ast.expr, types: dict[str, Any], module: Module) -> Found | None:
        """The function, method or class that an expression names."""
        if isinstance(node, ast.Name):
            return None if node.id in types else self.package.member(module, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.type_of(node.value, types, module)
            if owner is not None:
                return self._method(owner, node.attr)
            top = self.package.expression(node, module) if root_of(node) not in types else None
            if top is None and isinstance(node.value, ast.Name) and node.value.id not in types:
                cls = self.package.member(module, node.value.id)
                top = self._method(cls, node.attr) if isinstance(cls, Class) else None
            return top
        return None

    def _unknown(self, node: ast.expr, types: dict[str, Any], module: Module) -> bool:
        """Whether the type of an object is unknown: not even known to come from another library."""
        root = root_of(node)
        imported = root is not None and root not in types and root in module.imports
        return not imported and not is_super(node) and not isinstance(node, ast.Constant | ast.JoinedStr)

    def _by_name(self, name: str, module: Module) -> list[Use]:
        if name in ELSEWHERE:
            return []
        near = self.package.reach(module)
        found = [each for each in self.package.classes if name in each.methods and each.module.path in near]
        return [Use(each.methods[name], sure=False) for each in found]

    def _has_code(self, cls: Class) -> bool:
        """Whether making an object runs code of the package."""
        family = self.package.bases(cls)
        if any("__init__" in each.methods or "__post_init__" in each.methods for each in family):
            return not any(mark.endswith("Error") for mark in cls.marks)
        return not any(each.marks & PLAIN for each in family) and not cls.name.endswith("Error")

    def _own(self, cls: Class) -> Class:
        """The concrete class that stands for this one."""
        return next((each for each in self.concrete if cls in self.package.bases(each)), cls)

    def _method(self, cls: Class | None, name: str) -> Function | None:
        return None if cls is None else self.package.method(self._own(cls), name)

    def types(self, function: Function) -> dict[str, Any]:
        """Local names of a function → their class, or None if it is not known."""
        module, node = self.package.paths[function.path], function.node
        args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        types: dict[str, Any] = {arg.arg: self.package.annotated(arg.annotation, module) for arg in args}
        if function.owner is not None and args and args[0].arg in ("self", "cls"):
            types[args[0].arg] = self._own(function.owner)
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                types.setdefault(each.id, None)
            elif isinstance(each, ast.arg) and each not in args:
                types.setdefault(each.arg, self.package.annotated(each.annotation, module))
        for each in code_of(node):
            for name, value in assigned(each):
                types[name] = types.get(name) or self.type_of(value, types, module)
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                types[each.target.id] = self.package.annotated(each.annotation, module) or types[each.target.id]
        return types

    def type_of(self, node: ast.expr, types: dict[str, Any], module: Module) -> Class | None:
        """The class of an expression's value, as far as it can be told."""
        if isinstance(node, ast.Name):
            return types.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.type_of(node.value, types, module)
            return self.attribute(self._own(owner), node.attr) if owner is not None else None
        if isinstance(node, ast.Call):
            target = self._meaning(node.func, types, module)
            if isinstance(target, Function):
                return self.returned(target, self.type_of(node.func.value, types, module)
                                     if isinstance(node.func, ast.Attribute) else None)  # fmt: skip
            return target if isinstance(target, Class) else None
        if isinstance(node, ast.BoolOp | ast.IfExp):
            options = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
            return next((t for option in options if (t := self.type_of(option, types, module)) is not None), None)
        return self.type_of(node.value, types, module) if isinstance(node, ast.NamedExpr) else None

    def returned(self, function: Function, owner: Class | None) -> Class | None:
        node = function.node.returns
        if isinstance(node, ast.Name) and node.id == "Self":
            return owner or function.owner
        return self.package.annotated(node, self.package.paths[function.path])

    def attribute(self, cls: Class, name: str) -> Class | None:
        """The class of an attribute: from its annotation, a property's, or what a method assigns to it."""
        if (cls, name) not in self._attributes:
            self._attributes[cls, name] = None  # while it is being found, it is not known
            found = [self._attribute_in(each, name) for each in self.package.bases(cls)]
            self._attributes[cls, name] = next((each for each in found if each is not None), None)
        return self._attributes[cls, name]

    def _attribute_in(self, cls: Class, name: str) -> Class | None:
        if name in cls.methods:
            method = cls.methods[name]
            return self.returned(method, cls) if method.is_property else None
        for node in ast.walk(cls.node):
            if isinstance(node, ast.AnnAssign) and name_of(node.target) in (name, f"self.{name}"):
                return self.package.annotated(node.annotation, cls.module)
        for method in cls.methods.values():
            for node in code_of(method.node):
                for target, value in assigned(node):
                    if target == f"self.{name}":
                        return self.type_of(value, self.types(method), cls.module)
        return None


def code_of(node: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function's body and defaults in order, without annotations and decorators."""
    waiting: list[ast.AST] = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.body]
    while waiting:
        current = waiting.pop(0)
        yield current
        skipped = {"annotation", "returns", "decorator_list"}
        inner: list[ast.AST] = []
        for name, value in ast.iter_fields(current):
            parts = [] if name in skipped else value if isinstance(value, list) else [value]
            inner += [part for part in parts if isinstance(part, ast.AST)]
        waiting = inner + waiting


def assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names (x or self.x) and the expressions that a statement assigns to them, pair by pair."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _paired(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _paired(node.target, node.value)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _paired(node.optional_vars, node.context_expr)


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _paired(one, other)
    elif name_of(target):
        yield name_of(target), value


def name_of(node: ast.expr) -> str:
    """x or self.x; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    inner = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return f"self.{node.attr}" if inner and isinstance(node, ast.Attribute) else ""


def root_of(node: ast.expr) -> str | None:
    """The first name of a dotted expression."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def is_super(node: ast.expr) -> bool:
    """Whether it is super() or super().name."""
    value = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
