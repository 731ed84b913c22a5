"""Programs with open sizes, compared with the programs of each set of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.size import Guard
from glow_nb.base.types import Array
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.with_sizes import with_sizes
from glow_nb.kernels.target import Target
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.order_placement import placed_for
from glow_nb.network.compilation import compile_function

Sizes = Mapping[str, int]


def compiled(
    function: Function,
    *,
    threads: int = 1,
    target: Target | None = None,
    options: CpuOptions | None = None,
) -> CpuExecutable:
    """Return *function*, whose sizes may be open, compiled for the cpu."""
    backend = CpuBackend(target, options, threads=threads)
    executable = compile_function(function, backend, threads=threads).executable
    assert isinstance(executable, CpuExecutable)
    return executable


def guards_of(executable: CpuExecutable) -> tuple[Guard, ...]:
    """Return the comparisons for which a program is right."""
    assert executable.native.open is not None
    return executable.native.open.guards


def check_sizes(
    function: Function,
    sets: Iterable[Sizes],
    *,
    threads: int = 1,
    target: Target | None = None,
    options: CpuOptions | None = None,
    tolerance: float = 1e-5,
    seed: int = 0,
) -> CpuExecutable:
    """Compile *function* once, and compare its runs with those of a compilation for each set.

    Those of the interpreter are compared with ``evaluate``. No comparison may have been answered
    by the sizes of the example, and placements are proved.
    """
    backend = CpuBackend(target, options, threads=threads)
    opened = compile_function(function, backend, threads=threads)
    assert isinstance(opened.executable, CpuExecutable)
    assert not guards_of(opened.executable), "; ".join(map(str, guards_of(opened.executable)))
    interpreted = compile_function(function, Interpreter(), threads=1).executable
    rng = np.random.default_rng(seed)
    for sizes in sets:
        check_placement(placed_for(opened.program, sizes))
        static = with_sizes(function, sizes)
        inputs = [_array(rng, v.type.kind.dtype, v.type.shape) for v in static.inputs]
        check_close(interpreted.run(inputs), _evaluated(static, inputs), 1e-4, sizes)
        wanted = compiled(static, threads=threads, target=target, options=options).run(inputs)
        check_close(opened.executable.run(inputs), wanted, tolerance, sizes)
    return opened.executable


def _evaluated(function: Function, inputs: Sequence[Array]) -> list[Array]:
    named = {value.name: array for value, array in zip(function.inputs, inputs, strict=True)}
    results = evaluate(function, named)
    return [np.asarray(results[value.name]) for value in function.outputs]


def check_close(
    found: Sequence[Array], wanted: Sequence[Array], tolerance: float, sizes: Sizes
) -> None:
    """Compare results of a run of *sizes*, relatively to the largest number of each."""
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape, sizes
        assert one.dtype == other.dtype, sizes
        scale = np.abs(other.astype(np.float64)).max(initial=0) + 1e-30
        error = np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0) / scale
        assert error <= tolerance, f"{dict(sizes)}: {error}"


def _array(rng: np.random.Generator, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0, 4, shape).astype(dtype)
