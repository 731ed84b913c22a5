"""A network whose input shapes are known at the first run: compiled once for every shape seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from typing_extensions import override

from glow_nb.arguments import as_array
from glow_nb.errors import FeedError, GlowError
from glow_nb.network import CompiledNetwork, Feeds, name_feeds
from glow_nb.types import Array

if TYPE_CHECKING:
    from glow_nb.importers.onnx import Dimensions
    from glow_nb.profile import Profile

MAX_VARIANTS = 16
"""Compiled shapes that are kept; the one unused for longest goes first."""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class DynamicNetwork(CompiledNetwork):
    """A network with symbolic dimensions, compiled for each shape at its first run and kept.

    Everything but :meth:`run` speaks of the shape that ran last.
    """

    def __init__(
        self,
        signature: Mapping[str, Dimensions | None],
        compile_for: Callable[[dict[str, tuple[int, ...]]], CompiledNetwork],
    ) -> None:
        """Take the declared input shapes and the function that compiles for given ones."""
        self.signature = dict(signature)
        self._compile_for = compile_for
        self._variants: dict[Shapes, CompiledNetwork] = {}
        self._lock = threading.Lock()

    @override
    def run(self, inputs: Feeds) -> dict[str, Array]:
        """Run the network, compiling it first if these shapes are new."""
        network, feeds = self._network_for(inputs)
        return network.run(feeds)

    @override
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Profile the network, compiling it first if these shapes are new."""
        network, feeds = self._network_for(inputs)
        return network.profile(feeds, runs=runs, limits=limits)

    def _network_for(self, inputs: Feeds) -> tuple[CompiledNetwork, dict[str, Array]]:
        """Return the network for the shapes of *inputs*, and these by name."""
        feeds = {k: as_array(k, v) for k, v in name_feeds(list(self.signature), inputs).items()}
        self._check_shapes(feeds)
        return self._variant(tuple((k, feeds[k].shape) for k in self.signature)), feeds

    def _variant(self, shapes: Shapes) -> CompiledNetwork:
        with self._lock:
            network = self._variants.pop(shapes, None) or self._compile_for(dict(shapes))
            self._variants[shapes] = network  # the newest is last
            while len(self._variants) > MAX_VARIANTS:
                del self._variants[next(iter(self._variants))]
        self.program, self.function = network.program, network.function
        self.threads, self._executable = network.threads, network._executable
        return network

    def _check_shapes(self, feeds: Mapping[str, Array]) -> None:
        sizes: dict[str, tuple[int, str]] = {}
        for name, declared in self.signature.items():
            shape = feeds[name].shape
            if declared is None:
                continue
            fits = len(shape) == len(declared) and all(
                isinstance(want, str) or want == got
                for want, got in zip(declared, shape, strict=False)
            )
            if not fits:
                raise FeedError(
                    f"input {name!r}: shape is {list(shape)}, the network takes {list(declared)}"
                )
            for want, got in zip(declared, shape, strict=True):
                if not isinstance(want, str):
                    continue
                bound, owner = sizes.setdefault(want, (got, name))
                if bound != got:
                    raise FeedError(
                        f"dimension {want!r} is {bound} in input {owner!r} but {got} in {name!r}; "
                        "it must have one size"
                    )

    def __getattr__(self, name: str) -> object:
        # Reached only for what a first run sets: program, function, threads, _executable.
        if name in ("program", "function", "threads", "_executable"):
            raise GlowError(
                f"the network's input shapes {self.signature} are not bound yet; "
                "run it once or pass shapes= to compile"
            )
        raise AttributeError(name)

    @override
    def __repr__(self) -> str:
        if "program" in self.__dict__:
            return super().__repr__()
        return f"<DynamicNetwork of inputs {self.signature}, not compiled yet>"
