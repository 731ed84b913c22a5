"""Is any matrix product slow beside ONNX Runtime and NumPy's BLAS?

Forty products of float32 matrices, square, tall, wide, with long sums, of one row and of few, with
odd sizes and in batches. The right matrix is a constant, or comes at run time as it is multiplied
or transposed; the left one may come transposed, too. Each engine has a process of its own, and they
are asked in turn::

    python -m experiments.benchmarks.products --threads 1
    python -m experiments.benchmarks.products --only "1 x 4096" --lanes 8

The ratio is the smallest time of the better peer over ours: above 1 we are faster; behind it is the
same for medians. For products of one row the last column has the rate at which the right matrix is
read, over the rate at which this machine reads memory of that size (``glow-nb machine``).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from typing_extensions import override

from experiments.benchmarks.timing import times_for
from glow_nb.base.distance import largest_distance
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array
from glow_nb.tools.duel.engines import open_onnxruntime, require_installed

GLOW_NB, ONNX_RUNTIME, BLAS = "glow_nb", "onnxruntime", "numpy"
Run = Callable[[], Array]

REST_SECONDS = 0.2
"""So long nothing runs before an engine with several threads has its turn. A thread of OpenBLAS
that has no work asks for some for 110 milliseconds, and would take a core of the next engine."""


@dataclass(frozen=True)
class Product:
    """``result[b, m, n] = sum over k of left[b, m, k] * right[b, k, n]``.

    Attributes:
        rows: Rows of each left matrix (m).
        columns: Columns of each right matrix (n).
        inner: Length of the sums (k).
        right: How the right matrix comes: "constant", "run-time" or "transposed", at run time.
        left: How the left matrix comes: "plain" or "transposed"; at run time.
        batch: How many products there are, each of matrices of its own.
    """

    rows: int
    columns: int
    inner: int
    right: str
    left: str = "plain"
    batch: int = 1

    @override
    def __str__(self) -> str:
        batch = f"{self.batch} of " if self.batch > 1 else ""
        left = ", left transposed" if self.left == "transposed" else ""
        return f"{batch}{self.rows} x {self.columns} x {self.inner} {self.right}{left}"

    @property
    def flops(self) -> int:
        """Arithmetic operations, a multiply-add being two."""
        return 2 * self.batch * self.rows * self.columns * self.inner

    @property
    def right_bytes(self) -> int:
        """Size of the right matrices."""
        return 4 * self.batch * self.columns * self.inner

    def operands(self) -> dict[str, Array]:
        """Return the matrices as they come, seeded."""
        random = np.random.default_rng(5)
        left, right = [self.rows, self.inner], [self.inner, self.columns]
        left = left[::-1] if self.left == "transposed" else left
        right = right[::-1] if self.right == "transposed" else right
        batch = [self.batch] if self.batch > 1 else []
        made = {"left": [*batch, *left], "right": [*batch, *right]}
        return {name: random.standard_normal(shape, np.float32) for name, shape in made.items()}

    def model(self) -> onnx.ModelProto:
        """Return the product as exporters write it: transposes in front of ``MatMul``."""
        operands = self.operands()
        constants = {"right"} if self.right == "constant" else set()
        nodes, names = [], []
        for name, turned in (("left", self.left), ("right", self.right)):
            names.append(name)
            if turned == "transposed":
                names[-1] += "_turned"
                order = [0, 2, 1] if self.batch > 1 else [1, 0]
                nodes.append(helper.make_node("Transpose", [name], [names[-1]], perm=order))
        nodes.append(helper.make_node("MatMul", names, ["result"]))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
            for name, array in operands.items()
            if name not in constants
        ]
        result = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(operands[name], name) for name in sorted(constants)]
        graph = helper.make_graph(nodes, "product", inputs, [result], weights)
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


CONSTANT = (
    (1, 1000, 2048), (1, 1024, 4096), (1, 4096, 1024), (4, 1280, 1280), (8, 3072, 768),
    (8, 768, 3072), (32, 1000, 2048), (77, 1280, 1280), (128, 768, 768), (128, 3072, 768),
    (128, 768, 3072), (512, 512, 512), (1500, 512, 512), (4096, 64, 64), (49, 33, 4096),
    (1001, 127, 255),
)  # fmt: skip
RUN_TIME = (
    (1, 768, 768), (1, 4096, 1024), (2, 1024, 4096), (8, 768, 3072), (8, 4096, 512),
    (77, 1280, 1280), (128, 768, 768), (128, 768, 3072), (384, 384, 384), (1024, 1024, 1024),
    (1500, 512, 512), (101, 77, 513),
)  # fmt: skip
TRANSPOSED = (
    (1, 4096, 1024), (8, 3072, 768), (77, 1280, 1280), (128, 768, 768), (1500, 512, 512),
    (33, 101, 333),
)  # fmt: skip
TABLE = (
    *(Product(*sizes, "constant") for sizes in CONSTANT),
    *(Product(*sizes, "run-time") for sizes in RUN_TIME),
    *(Product(*sizes, "transposed") for sizes in TRANSPOSED),
    Product(768, 768, 128, "run-time", "transposed"),
    Product(128, 768, 768, "run-time", "transposed"),
    Product(65, 64, 4096, "constant", "transposed"),
    Product(128, 64, 128, "run-time", batch=12),
    Product(197, 197, 64, "transposed", batch=12),
    Product(1, 64, 255, "run-time", batch=16),
)
"""The forty products, as (rows, columns, inner)."""


@dataclass(frozen=True)
class Options:
    """How the engines run.

    Attributes:
        threads: Cores that share one product.
        lanes: Elements in a vector of our kernels; 0 for what the processor has.
    """

    threads: int = 1
    lanes: int = 0


def open_product(engine: str, product: Product, options: Options) -> Run:
    """Return a function that computes *product* in *engine*."""
    operands = product.operands()
    if engine == BLAS:
        left, right = operands["left"], operands["right"]
        left = left.swapaxes(-1, -2) if product.left == "transposed" else left
        right = right.swapaxes(-1, -2) if product.right == "transposed" else right
        return lambda: left @ right
    feeds = {n: a for n, a in operands.items() if (n, product.right) != ("right", "constant")}
    if engine == ONNX_RUNTIME:
        run = open_onnxruntime(product.model().SerializeToString(), options.threads)
        return lambda: run(feeds)[0]
    return _open_glow_nb(product, feeds, options)


def _open_glow_nb(product: Product, feeds: Mapping[str, Array], options: Options) -> Run:
    import glow_nb
    from glow_nb.backends.cpu.backend import CpuBackend
    from glow_nb.kernels.target import Target

    target = Target.host(lanes=options.lanes or None)
    backend = CpuBackend(target, threads=options.threads)
    net = glow_nb.compile(product.model(), backend=backend, threads=options.threads)
    return lambda: net.run(feeds)["result"]


def serve(connection: Connection, engine: str, options: Options) -> None:
    """Answer requests: a product is opened and run once, seconds are for runs of the last one."""
    run: Run | None = None
    while (request := connection.recv()) is not None:
        if run is None or isinstance(request, Product):
            run = open_product(engine, request, options)
            connection.send(run())
            continue
        connection.send(times_for(run, request))


class Engine:
    """An engine in a process of its own, which ends when it is closed."""

    def __init__(self, name: str, options: Options) -> None:
        context = multiprocessing.get_context("spawn")
        self._rest = REST_SECONDS if options.threads > 1 else 0.0
        self._connection, end = context.Pipe()
        context.Process(target=serve, args=(end, name, options), daemon=True).start()
        end.close()

    def result(self, product: Product) -> Array:
        """Return *product*, which is what runs from now on."""
        self._connection.send(product)
        result: Array = self._connection.recv()
        return result

    def times(self, seconds: float) -> list[float]:
        """Return the wall seconds of each run in about *seconds*, of at least one."""
        time.sleep(self._rest)
        self._connection.send(seconds)
        times: list[float] = self._connection.recv()
        return times

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)


@dataclass(frozen=True)
class Row:
    """What was measured of one product: the times of each engine, and how far apart they are."""

    product: Product
    times: Mapping[str, Sequence[float]]
    difference: float

    def ratio(self, smallest: Callable[[Sequence[float]], float] = min) -> float:
        """Return the time of the better peer over ours; *smallest* makes one time of many."""
        peers = [smallest(times) for name, times in self.times.items() if name != GLOW_NB]
        return min(peers) / smallest(self.times[GLOW_NB])

    def text(self, read_rate: Callable[[int], float]) -> str:
        """Return one line; *read_rate* says how fast so many bytes are read."""
        rates = [f"{self.product.flops / min(times) / 1e9:8.1f}" for times in self.times.values()]
        parts = [f"{self.product!s:48}", *rates]
        parts.append(f"{min(self.times[GLOW_NB]) * 1e6:9.1f} us")
        parts.append(f"{self.ratio():7.3f} {self.ratio(statistics.median):7.3f}")
        parts.append(f"{self.difference:8.1e}")
        if self.product.rows == 1:
            size = self.product.right_bytes
            parts.append(f"{size / min(self.times[GLOW_NB]) / read_rate(size):6.2f}")
        return " ".join(parts)


def measure(product: Product, engines: Mapping[str, Engine], rounds: int, seconds: float) -> Row:
    """Run *product* in all engines, in turn."""
    results = {name: engine.result(product) for name, engine in engines.items()}
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            times[name] += engine.times(seconds)
    return Row(product, times, largest_distance([results[BLAS]], [results[GLOW_NB]]))


def machine_reads(threads: int) -> Callable[[int], float]:
    """Return how fast this machine reads, in bytes a second, by the size of what is read."""
    from glow_nb.codegen.measure_limits import machine_limits

    limits = machine_limits(threads)
    return lambda size: limits.level_for(size).read_rate


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="of each engine")
    parser.add_argument(
        "--lanes", type=int, default=0, help="of our vectors; 0 for those of the machine"
    )
    parser.add_argument("--only", default="", help="products whose text has this in it")
    parser.add_argument("--rounds", type=int, default=8, help="in which all engines are asked")
    parser.add_argument("--seconds", type=float, default=0.03, help="for each engine and round")
    return parser.parse_args()


def main() -> None:
    """Measure the products, and print the geometric mean of the ratios."""
    arguments = parse_arguments()
    require_installed([ONNX_RUNTIME])
    products = [product for product in TABLE if arguments.only in str(product)]
    if not products:
        raise OptionError(
            f"--only {arguments.only!r}: in no product of the table; leave it out to see all"
        )
    read_rate = machine_reads(arguments.threads)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)  # read by the processes when they start
    options = Options(arguments.threads, arguments.lanes)
    engines = {name: Engine(name, options) for name in (GLOW_NB, ONNX_RUNTIME, BLAS)}
    title = "GFLOP/s of rows x columns x inner in"
    print(f"{title:48} " + " ".join(f"{name:>8.8}" for name in engines))
    rows: list[Row] = []
    for product in products:
        rows.append(measure(product, engines, arguments.rounds, arguments.seconds))
        print(rows[-1].text(read_rate), flush=True)
    for engine in engines.values():
        engine.close()
    for title, of in (("minima", min), ("medians", statistics.median)):
        ratios = [row.ratio(of) for row in rows]
        mean = statistics.geometric_mean(ratios)
        below = sum(ratio < 0.95 for ratio in ratios)
        print(f"{title}: geometric mean {mean:.3f} of {len(ratios)}, {below} below 0.95")


if __name__ == "__main__":
    main()
