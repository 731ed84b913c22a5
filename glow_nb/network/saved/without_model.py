"""A saved network with open sizes: its model is not at hand, so its programs are all there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from glow_nb.base.errors import FeedError, UnsupportedError
from glow_nb.base.fitting_sizes import nearest_fits
from glow_nb.base.override import override
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.dynamic_views import InputShapes
from glow_nb.network.general import broken_guards
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.saved.open_sizes import KnownModel
from glow_nb.network.saved.signature import Signature
from glow_nb.network.sized_model import Example, describe_sizes


class SavedDynamicNetwork(DynamicNetwork):
    """A network that leaves sizes open, with the programs that it was saved with and no others."""

    def __init__(self, signature: Signature, programs: Sequence[CompiledNetwork]) -> None:
        """Run the sizes of a model of this *signature* by *programs*: one for all, or for some."""
        first, *_ = programs
        model = KnownModel(signature, _refuse_to_compile)
        super().__init__(
            model,
            model.compile_for,
            self._refuse_shapes if signature.general else None,
            is_asked=signature.is_asked,
            pipeline=lambda: first.pipeline,
            max_variants=len(programs),
            threads=first.threads,
            state=first.state,
        )
        self.take_programs(signature, programs)

    @property
    @override
    def value_names(self) -> list[str]:
        return self.variants[0].value_names

    @override
    def _variant(
        self,
        shapes: InputShapes,
        fixed: Mapping[str, Array] = MappingProxyType({}),
        *,
        is_waited_for: bool = False,
    ) -> CompiledNetwork:
        if not fixed and self._variants.is_ready((shapes, ())):
            return super()._variant(shapes)
        known = dict(shapes)
        if fixed or not known.keys().isdisjoint(self.defaults):
            refuse_defaults()
        if self.general is not None:
            self._refuse_shapes(known)
        programs = "; ".join(program.sizes for program in self.variants)
        raise FeedError(
            f"sizes {describe_sizes(self._model, known)}: the saved network has programs for "
            f"{programs}; compile the model, run it with these sizes, and save it again"
        )

    def _refuse_shapes(self, shapes: Example) -> NoReturn:
        """Raise the FeedError about inputs of *shapes*, for which no program is right."""
        programs = () if self.general is None else self.general.networks
        known = "; ".join(f"one is for {_domain(one, shapes)}" for one in programs)
        raise FeedError(
            f"sizes {describe_sizes(self._model, shapes)}: no program of the saved network is "
            f"right for them ({known}); compile the model, run it with these sizes, and save it "
            "again"
        )


def _domain(program: CompiledNetwork, shapes: Example) -> str:
    """Return for which sizes *program* is, as far as *shapes* are not among them."""
    border = program.border
    try:
        sizes = sizes_of_shapes(border.inputs, border.symbols, shapes)
    except FeedError:
        return ", ".join(symbol.declaration for symbol in border.symbols)
    others = [f"{n} : {t}" for n, t in border.inputs.items() if t.at(sizes).shape != shapes[n]]
    broken = broken_guards(program, sizes)
    where = f"sizes where {', '.join(map(str, broken))}{nearest_fits(broken, sizes)}"
    return ", ".join(others) or where


def refuse_defaults() -> NoReturn:
    """Refuse feeds instead of defaults."""
    raise UnsupportedError(
        "a saved network has the numbers of these inputs as constants; compile the model, and feed "
        "them there"
    )


def _refuse_to_compile() -> NoReturn:
    raise UnsupportedError(
        "a saved network has no model that could be compiled for more sizes; compile the model, "
        "prepare these there, and save it again"
    )
