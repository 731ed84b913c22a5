"""Arguments of commands that read a model: sizes, numbers of inputs, and definitions to import."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from typing_extensions import override

from glow_nb.base.arguments import Shapes
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array, SymbolicType
from glow_nb.commands.arrays import read_npy, split_assignment
from glow_nb.commands.literals import array_of
from glow_nb.commands.own_definitions import import_files, import_option
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program

NamedShape = tuple[str, int | tuple[int, ...]]


class ShapeType(click.ParamType[NamedShape]):
    """``NAME=SIZE`` of a symbolic dimension, or ``NAME=SIZExSIZEx...`` of a whole input."""

    name = "name=size"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> NamedShape:
        if isinstance(value, tuple):
            return value
        name, equals, sizes = value.rpartition("=")
        if not equals or not name or not re.fullmatch(r"\d{1,15}(x\d{1,15})*x?", sizes):
            self.fail(
                f"{value!r} is not NAME=SIZE, as batch=8, nor NAME=SIZExSIZE, as data=1x3x224x224",
                param,
                ctx,
            )
        numbers = tuple(int(size) for size in sizes.split("x") if size)
        return name, numbers if "x" in sizes else numbers[0]


@dataclass(frozen=True)
class Bindings:
    """What the options of a command bind in a model.

    Attributes:
        shapes: Sizes of symbolic dimensions by name, or whole shapes by input name.
        texts: The ``NAME=VALUE`` of each ``--constant``.
        imported: The file of each ``--import``.
    """

    shapes: Shapes
    texts: tuple[str, ...] = ()
    imported: tuple[Path, ...] = ()

    def constants(self, model: Path) -> dict[str, Array]:
        """Return the numbers of inputs of *model*, each of the kind of its input.

        Raises:
            OptionError: A name is unknown or given twice, or the numbers are none of that kind.
            GlowError: The model cannot be read.
        """
        if not self.texts:
            return {}
        from glow_nb.formats.onnx.importer import declared_inputs, load_model

        return constants_of(self.texts, declared_inputs(load_model(str(model))))

    def constants_for(self, inputs: Mapping[str, SymbolicType]) -> dict[str, Array]:
        """Return the numbers of those of *inputs* that are given any; raise OptionError if bad."""
        fitting = [text for text in self.texts if any(text.startswith(f"{n}=") for n in inputs)]
        return constants_of(tuple(fitting), inputs)

    @property
    def names(self) -> list[str]:
        """The names of what is bound, as far as they are known without a model."""
        return [*self.shapes, *(text.partition("=")[0] for text in self.texts)]

    def require_open(self, model: Path, ir: Function | Program) -> None:
        """Raise OptionError if something is bound that *ir*, the text *model*, does not leave open.

        That is all but the sizes of a graph that has some.
        """
        is_open = isinstance(ir, Function) and bool(ir.sizes)
        if self.shapes and not is_open:
            shapes = list(self.shapes)
            raise OptionError(f"{model}: its sizes are fixed; leave --shape {shapes} out")
        if self.texts:
            raise OptionError(
                f"{model}: only inputs of ONNX models can be fixed; leave --constant out of a "
                "command on IR text"
            )


NOTHING = Bindings({})


def constants_of(texts: tuple[str, ...], inputs: Mapping[str, SymbolicType]) -> dict[str, Array]:
    """Return the arrays that ``NAME=VALUE`` *texts* give for *inputs*; raise OptionError if bad."""
    constants: dict[str, Array] = {}
    for text in texts:
        name, given = split_assignment("--constant", text, list(inputs))
        if name in constants:
            raise OptionError(f"--constant {text}: input {name!r} is given twice; leave one out")
        if given.endswith(".npy"):
            constants[name] = read_npy(given)
        else:
            constants[name] = array_of(given, inputs[name], f"--constant {text}")
    return constants


def as_shapes(named: tuple[NamedShape, ...]) -> Shapes:
    """Return the ``--shape`` options as ``compile`` takes them.

    Raises:
        OptionError: A name is given twice.
    """
    shapes: dict[str, int | tuple[int, ...]] = {}
    for name, given in named:
        if name in shapes:
            raise OptionError(
                f"--shape {_shown(name, given)}: {_shown(name, shapes[name])} is given, too; leave "
                "one of them out"
            )
        shapes[name] = given
    return shapes


def _shown(name: str, given: int | tuple[int, ...]) -> str:
    if isinstance(given, int):
        return f"{name}={given}"
    return f"{name}={'x'.join(map(str, given))}{'x' * (len(given) == 1)}"


_shape_option = click.option(
    "--shape",
    "shapes",
    type=ShapeType(),
    multiple=True,
    metavar="NAME=SIZE",
    help="Size of a symbolic dimension (batch=8), or whole shape of an input "
    "(data=1x3x224x224). Repeat it for each.",
)

_constant_option = click.option(
    "--constant",
    "fixed",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of an input, which becomes a constant of the network: one number (sr=16000), "
    "a list (sizes=1,3,64,64 or [[1,2],[3,4]]), or FILE.npy. Repeat it for each.",
)

Command = TypeVar("Command", bound=Callable[..., object])


def binding_options(command: Command) -> Command:
    """Add ``--shape`` and ``--constant``, which *command* gets as ``bindings``, and ``--import``.

    The files of the last one are imported before *command* begins.
    """

    @wraps(command)
    def bound(
        *arguments: Any,
        shapes: tuple[NamedShape, ...],
        fixed: tuple[str, ...],
        imported: tuple[Path, ...],
        **given: Any,
    ) -> object:
        import_files(imported)
        return command(*arguments, bindings=Bindings(as_shapes(shapes), fixed, imported), **given)

    decorated: Any = bound
    made: Command = _shape_option(_constant_option(import_option(decorated)))
    return made
