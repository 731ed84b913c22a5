"""What does a graph look like that was differentiated? The paper's Figure 2 again.

The figure shows a regression of A, lowered, with the gradient that Glow has made of it. This is the
same of our own compiler: a dense layer, the mean of squared distances, the gradients of its weights
and a step of gradient descent, which saves the new weights::

    python -m experiments.figures.figure2_gradient --output figure2.dot
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import glow_nb
from experiments.figures.graph_picture import write_graph
from glow_nb.backends import backend_named
from glow_nb.compiler.pipelines import TRAINING
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import emit_gradients
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import FullyConnected
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.save import Save
from glow_nb.train import MeanSquaredError

RATE = 0.1


def regression() -> Function:
    """Return a dense layer of A, and the mean of its squared distances from what is expected."""
    builder = Builder("regression")
    a = builder.input("A", "float32<8 x 4>")
    expected = builder.input("expected", "float32<8 x 2>")
    weights = builder.state("weights", np.zeros((4, 2), np.float32))
    bias = builder.state("bias", np.zeros(2, np.float32))
    layer = builder.emit(FullyConnected(a, weights, bias), "layer")
    builder.save(MeanSquaredError()(builder, layer, expected), "loss")
    return builder.function()


def with_step(function: Function) -> Function:
    """Return *function* with the gradients of its states, which follow them by a step."""
    builder = Backward.continuing(function)
    loss = next(node.input for node in function if isinstance(node, Save))
    gradients = emit_gradients(builder, loss, list(function.state))
    for state in function.state:
        step = Term(builder, state) - RATE * Term(builder, gradients[state])
        builder.update(state, step.value)
    return builder.function()


def main(arguments: Sequence[str] | None = None) -> None:
    """Differentiate, lower and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("figure2.dot"))
    given = parser.parse_args(arguments)
    function = regression()
    trained = with_step(function)
    lowered = glow_nb.lower_for(trained, backend_named("interpreter"), pipeline=TRAINING)
    print(
        f"{len(function.nodes)} nodes became {len(trained.nodes)} with gradients and a step of "
        f"descent, and {len(lowered.nodes)} after lowering and optimization"
    )
    write_graph(lowered, given.output)


if __name__ == "__main__":
    main()
