"""The arrays of ``--input``, which are checked before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glow_nb.base.errors import FeedError
from glow_nb.base.feeds import check_open_feeds, name_feeds
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.types import Array, SymbolicType, symbolic
from glow_nb.commands.arrays import assign_inputs
from glow_nb.commands.bindings import Bindings
from glow_nb.commands.models import check_bindings_apply, load_model
from glow_nb.commands.size_ranges import NO_SIZES
from glow_nb.network.text_files import SUFFIX

Types = Mapping[str, SymbolicType]


def read_inputs(
    texts: Sequence[str], model: Path, bindings: Bindings, sizes: Mapping[str, Any] = NO_SIZES
) -> dict[str, Array]:
    """Return the arrays of the ``NAME=FILE.npy`` *texts* by input name; none if there are none.

    They fit the inputs that the file *model* declares, with the sizes that *bindings* give, and are
    within the *sizes* that stay open. Nothing is imported from an ONNX model for this.

    Raises:
        OptionError: A name is unknown or given twice, or a file does not hold an array.
        FeedError: An input is missing, or of another type.
        GlowError: The model cannot be read.
    """
    if not texts:
        return {}
    needed, defaults = _declared_inputs(model, bindings)
    feeds = assign_inputs(texts, [*needed, *defaults])
    name_feeds(needed.keys(), feeds, defaults.keys())
    _check_ranges(check_open_feeds({**needed, **defaults}, feeds), sizes)
    return feeds


def _declared_inputs(model: Path, bindings: Bindings) -> tuple[Types, Types]:
    """Return the inputs of *model* that must be fed, and those that have a default."""
    check_bindings_apply(model, bindings)
    if model.suffix == SUFFIX:
        text = load_model(model, bindings)
        return {value.name: symbolic(value.type) for value in text.inputs}, {}
    from glow_nb.formats.onnx.importer import fed_inputs
    from glow_nb.formats.onnx.importer import load_model as read_model

    return fed_inputs(read_model(str(model)), bindings.shapes, bindings.constants(model))


def _check_ranges(found: Mapping[str, int], sizes: Mapping[str, Any]) -> None:
    """Raise FeedError if a size that was *found* is outside of the range that ``--size`` gives."""
    ranges = SizeRanges.of(sizes["sizes"], sizes["hints"]).ranges
    for name, (least, greatest) in ranges.items():
        if name in found and not least <= found[name] <= greatest:
            raise FeedError(
                f"size {name!r} is {found[name]} in the arrays of --input, and --size gives the "
                f"range {least}..{greatest}; give arrays within it, or another range"
            )
