"""Each class of the package that a public function returns, or a public class has, has an entry."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from pkgutil import resolve_name
from textwrap import dedent

import pytest

from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.interpreter import InterpretedProgram, OpenInterpretedProgram
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Emitter
from glow_nb.kernels.machine.machine import GROUPS
from tests.website.test_reference import documented
from website.markdown import items_of
from website.names import HIDDEN

OPAQUE: dict[type, str] = {
    CpuExecutable: "users get it as an Executable",
    InterpretedProgram: "users get it as an Executable",
    OpenInterpretedProgram: "users get it as an Executable",
    NativeProgram: "machine code, which devices load",
    Emitter: "what Builder, Rewriter and Backward have in common",
}
"""Classes without an entry, and why they need none."""


def test_every_class_that_users_get_has_an_entry() -> None:
    known = {id(resolve_name(name)) for name in documented()}
    known |= {id(getattr(ops, name)) for name in ops.__all__} | {id(each) for each in OPAQUE}
    missing = {
        f"{found.__module__}.{found.__name__}": place
        for name in documented()
        for place, found in classes_of(name, resolve_name(name))
        if id(found) not in known
    }
    assert missing == {}


def test_the_walk_sees_fields_properties_methods_and_what_only_type_checkers_import() -> None:
    def names(public: str) -> set[str]:
        return {found.__name__ for _, found in classes_of(public, resolve_name(public))}

    assert {"KernelTime", "Timings", "InstructionCost"} <= names("glow_nb.types.Profile")
    assert {"Profile", "KernelList", "StateStore"} <= names("glow_nb.Network")
    assert names("glow_nb.plans") == {"PlanTable"}
    assert "Border" not in names("glow_nb.CompiledNetwork")


@pytest.mark.parametrize("name", sorted(documented()))
def test_every_field_of_a_class_says_what_it_is(name: str) -> None:
    found = resolve_name(name)
    if not isinstance(found, type) or not is_dataclass(found):
        return
    known = {item.name for group in GROUPS for item in fields(group)}  # which have a table
    for base in (base for base in found.__mro__ if base.__module__.startswith("glow_nb.")):
        known |= {*items_of(base, "Attributes"), *items_of(vars(base).get("__init__"), "Args")}
        known |= set(members_with_docstrings(base))
    missing = {item.name for item in fields(found) if not item.name.startswith("_")} - known
    assert missing == set()


def members_with_docstrings(found: type) -> Iterator[str]:
    """Yield the names of members of a class that a docstring follows."""
    (definition,) = ast.parse(dedent(inspect.getsource(found))).body
    assert isinstance(definition, ast.ClassDef)
    for member, after in itertools.pairwise(definition.body):
        is_docstring = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if is_docstring and isinstance(member, ast.AnnAssign):
            assert isinstance(member.target, ast.Name)
            yield member.target.id


def classes_of(name: str, public: object) -> Iterator[tuple[str, type]]:
    """Yield the classes of the package that *public* returns, or has, each with its place."""
    for place, annotation, module in annotations_of(name, public):
        for found in classes_in(annotation, module):
            if found.__module__.startswith("glow_nb."):
                yield place, found


def annotations_of(name: str, public: object) -> Iterator[tuple[str, object, str]]:
    """Yield the annotations of what *public* returns, or of its public members.

    Each comes with its place and the module that it stands in.
    """
    if inspect.isfunction(public):
        yield name, public.__annotations__.get("return"), public.__module__
    ours = [] if not isinstance(public, type) else public.__mro__
    for base in (base for base in ours if base.__module__.startswith("glow_nb.")):
        for field, annotation in vars(base).get("__annotations__", {}).items():
            if not field.startswith("_") and field not in HIDDEN:
                yield f"{name}.{field}", annotation, base.__module__
        for member, value in vars(base).items():
            function = function_of(value)
            is_shown = member in ("__getitem__", "__iter__") or not member.startswith("_")
            if function is not None and is_shown and member not in HIDDEN:
                yield from annotations_of(f"{name}.{member}", function)


def function_of(member: object) -> object:
    """Return the function that a *member* of a class calls, None if it is something else."""
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return member if inspect.isfunction(member) else None


def classes_in(annotation: object, module: str) -> Iterator[type]:
    """Yield the classes that *annotation*, which stands in *module*, names, also by an alias."""
    if isinstance(annotation, str):
        for node in ast.walk(ast.parse(annotation, mode="eval")):
            if isinstance(node, ast.Name):
                yield from classes_in(value_of(node.id, module), module)
        return
    origin = typing.get_origin(annotation) or annotation
    if isinstance(origin, type):
        yield origin
    for part in typing.get_args(annotation):
        if not isinstance(part, str):  # a word of a Literal
            yield from classes_in(part, module)


def value_of(name: str, module: str) -> object:
    """Return what *name* is in *module*, also if only type checkers import it there."""
    found = vars(sys.modules[module]).get(name)
    if found is None and name in imports_of(module):
        found = resolve_name(imports_of(module)[name])
    return found if not isinstance(found, str) else None


@cache
def imports_of(module: str) -> dict[str, str]:
    """Return the whole names of what *module* imports from others."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        each.asname or each.name: f"{node.module}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
