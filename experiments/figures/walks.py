"""What becomes of a product of a training step, and of a quantized convolution?

Both are followed through the compiler for the processor of the row ``zen4``, whatever the host is;
nothing is compiled::

    python -m experiments.figures.walks training
    python -m experiments.figures.walks quantized
    python -m experiments.figures.walks training quantized --page docs/architecture.md

The last form puts the texts between the marks of a page.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from typing_extensions import override

import glow_nb
from experiments.benchmarks.printing import replace_part
from glow_nb import quant
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.constant_block import ConstantBlock
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.cpu.placed_calls import Places
from glow_nb.backends.cpu.planned_calls import Kernels, plan_calls, used_weights
from glow_nb.base.errors import GlowError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Convolution, MatMul, ReduceMean, Relu
from glow_nb.hlir.print import print_function
from glow_nb.kernels.machine.rows import ZEN4
from glow_nb.kernels.target import Target
from glow_nb.llir.print import print_program
from glow_nb.llir.program import Program
from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer


class Made(NamedTuple):
    """What the compiler has made: the program, and the text of each kernel."""

    program: Program
    kernels: list[str]


class MadeError(GlowError):
    """Ends a compilation with what was made."""

    def __init__(self, made: Made) -> None:
        super().__init__("the kernels are written")
        self.made = made


class Look(CpuBackend):
    """The cpu backend of the row ``zen4``, up to the text of kernels: it raises MadeError."""

    def __init__(self) -> None:
        super().__init__(Target.of(ZEN4), threads=1)

    @override
    def compile(self, program: Program, *, threads: int) -> CpuExecutable:
        places = Places(program, ConstantBlock(used_weights(program)).places, 0)
        calls = plan_calls(program, places, Kernels(self.target), threads).calls
        raise MadeError(Made(program, [call.source.text for call in calls]))


def made_by(compile: Callable[[], object]) -> Made:
    """Return what *compile* makes with a backend that looks."""
    try:
        compile()
    except MadeError as error:
        return error.made
    raise AssertionError("nothing was compiled")


def layers(*, has_loss: bool) -> Function:
    """Return two products with a ReLU between them, and the mean of the result as a loss."""
    b = glow_nb.Builder("net")
    x = b.input("x", "float32<64 x 256>")
    first = b.constant("first", np.full((256, 128), 0.01, np.float32))
    second = b.constant("second", np.full((128, 64), 0.01, np.float32))
    hidden = b.emit(Relu(b.emit(MatMul(x, first), "hidden")))
    scores = b.emit(MatMul(hidden, second), "scores")
    mean = b.emit(ReduceMean(scores, axes=(0, 1), keep_dims=False)) if has_loss else scores
    b.save(mean, "y")
    return b.function()


def blocks_with(text: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the stacks and the lines of *text* that have one of *words*."""
    lines = iter(text.splitlines())
    for line in lines:
        block = [line]
        if line.endswith("{") and line.strip() == "stack {":
            for inner in lines:
                block.append(inner)
                if inner.strip() == "}":
                    break
        if any(word in part for word in words for part in block):
            yield "\n".join(block)


def tile_of(text: str) -> str:
    """Return what a kernel says of itself, and how it computes its first register tile."""
    lines = text.splitlines()
    begin = next(n for n, line in enumerate(lines) if "for tile_a0" in line)
    depth = lines[begin].index("for")
    rest = lines[begin + 1 :]
    end = next((n for n, line in enumerate(rest) if line[: depth + 1].strip()), len(rest))
    title = [line for line in lines if line.startswith(("#", "def "))]
    return "\n".join([*title, "    ...", lines[begin], *rest[:end], "    ..."])


def training() -> Iterator[str]:
    """Yield the gradients of two products, the instructions of a step, and a kernel."""
    graph = glow_nb.differentiate(layers(has_loss=True), wrt=["first", "second"])
    yield "\n".join(blocks_with(print_function(graph), ("%scores", "func ")))
    trainer = Trainer(
        layers(has_loss=False),
        loss=SoftmaxCrossEntropy(),
        optimizer=SGD(0.1, momentum=0.9),
        check_gradients=False,
        backend=Look(),
        threads=1,
    )
    made = made_by(lambda: trainer.step(np.ones((64, 256), np.float32), np.zeros(64, np.int64)))
    words = (" = state ", "mul @out %scores", "mul @out %d_scores", "transpose @out %d_scores")
    yield "\n".join(blocks_with(print_program(made.program), words))
    yield tile_of(next(text for text in made.kernels if "operand4" in text))


def quantized() -> Iterator[str]:
    """Yield the graph of a quantized convolution, its program, and its kernel."""
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, 14, 14, 64)).astype(np.float32)
    b = glow_nb.Builder("net")
    x = b.input("x", "float32<1 x 14 x 14 x 64>")
    taps = b.constant("filter", rng.normal(scale=0.05, size=(64, 3, 3, 64)).astype(np.float32))
    bias = b.constant("bias", np.zeros(64, np.float32))
    convolution = Convolution(
        x, taps, bias, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1)
    )
    b.save(b.emit(Relu(b.emit(convolution, "conv")), "relu"), "y")
    function = b.function()
    ranges = quant.calibrate(function, {"x": image}, backend="interpreter")
    integers = quant.quantize(function, ranges, least_gain=0)
    yield print_function(integers)
    made = made_by(lambda: glow_nb.compile(integers, backend=Look(), threads=1))
    yield print_program(made.program)
    yield tile_of(made.kernels[1])


WALKS: Mapping[str, Callable[[], Iterator[str]]] = {"training": training, "quantized": quantized}


def parts_of(walk: str) -> dict[str, str]:
    """Return the texts of *walk* by the names of the marks in the page."""
    names = ("graph", "program", "kernel")
    texts = (text.strip("\n") for text in WALKS[walk]())
    return {f"{walk} {name}": text for name, text in zip(names, texts, strict=True)}


def main() -> None:
    """Print the walks, or put them into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("walks", nargs="+", choices=WALKS, help="what is followed")
    parser.add_argument("--page", type=Path, help="file whose texts are replaced")
    options = parser.parse_args()
    for walk in options.walks:
        for name, text in parts_of(walk).items():
            if options.page is None:
                print(f"{text}\n")
            else:
                replace_part(options.page, name, f"```text\n{text}\n```")


if __name__ == "__main__":
    main()
