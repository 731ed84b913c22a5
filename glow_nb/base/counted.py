"""Outputs whose size is known at run time only, up to a bound.

Such an output has the shape of the bound, and another output, which no user sees, holds how many of
its slices along an axis count; what comes after them is padding. IR text says so where the output
is declared: ``%y : int64<12 x 3> counted by %n along 0``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glow_nb.base.outputs import Outputs
from glow_nb.base.override import override
from glow_nb.base.types import Array, ElementKind, TensorType

if TYPE_CHECKING:
    from glow_nb.base.text import TokenReader


@dataclass(frozen=True)
class Counted:
    """Only the first slices along an axis count.

    Attributes:
        count: Name of the output, an int64 number, that says how many.
        axis: The axis.
    """

    count: str
    axis: int

    @override
    def __str__(self) -> str:
        from glow_nb.base.text import format_name

        return f" counted by %{format_name(self.count)} along {self.axis}"


@dataclass(frozen=True)
class BoundedType(TensorType):
    """The type of a counted output as users see it, printed ``int64<<=12 x 3>``.

    Attributes:
        bounded_axis: The axis whose size in ``shape`` is the largest that there may be.
    """

    bounded_axis: int = 0

    @override
    def __str__(self) -> str:
        sizes = [f"{'<=' * (i == self.bounded_axis)}{size}" for i, size in enumerate(self.shape)]
        return f"{self.kind.value}<{' x '.join(sizes)}>"


def read_counted(reader: TokenReader) -> Counted | None:
    """Read ``counted by %count along axis``; nothing there means that all counts."""
    if not reader.accept("counted"):
        return None
    reader.expect("by")
    count = reader.read_name()
    reader.expect("along")
    return Counted(count, reader.read_int("an axis"))


def problem_of(outputs: Mapping[str, tuple[TensorType, Counted | None]]) -> str:
    """Return what is wrong with the counts of outputs by name, nothing if all is well."""
    for name, (type, counted) in outputs.items():
        if counted is None:
            continue
        if not 0 <= counted.axis < type.rank:
            return f"output %{name} : {type} has no axis {counted.axis} to be counted along"
        count, _ = outputs.get(counted.count, (None, None))
        if count != TensorType(ElementKind.INT64, ()):
            return f"output %{name} is counted by %{counted.count}, which is no int64<> output"
    return ""


def cut(
    arrays: Mapping[str, Array], counted: Mapping[str, Counted], *, copies: bool = True
) -> dict[str, Array]:
    """Return *arrays* by output name without their padding, and without the counts.

    What is cut is copied, so that the padding is freed, or with *copies* off a view.
    """
    if not counted:
        return Outputs(arrays)
    hidden = {each.count for each in counted.values()}
    kept = Outputs((name, array) for name, array in arrays.items() if name not in hidden)
    for name, each in counted.items():
        whole = (slice(None),) * each.axis
        part = kept[name][(*whole, slice(int(arrays[each.count])))]
        kept[name] = part.copy() if copies else part
    return kept


def visible_types(
    types: Mapping[str, TensorType], counted: Mapping[str, Counted]
) -> dict[str, TensorType]:
    """Return the types of outputs by name as users see them, without the counts."""
    hidden = {each.count for each in counted.values()}
    return {
        name: BoundedType(type.kind, type.shape, bounded_axis=counted[name].axis)
        if name in counted
        else type
        for name, type in types.items()
        if name not in hidden
    }
