"""``glow-nb train``: train a model on arrays of a file, and write it with its new weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from glow_nb.base.errors import OptionError
from glow_nb.base.schema import listed
from glow_nb.base.types import Array
from glow_nb.commands.arrays import read_npz
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.models import open_model
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.options import ExampleCommand, seed_option_for, threads_option, without_option
from glow_nb.commands.outputs import OutputPath
from glow_nb.network.files import save_text
from glow_nb.network.text_files import SUFFIX
from glow_nb.system.replaced_files import replace_file
from glow_nb.train import (
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Epoch,
    Huber,
    Loss,
    MeanSquaredError,
    Optimizer,
    RMSprop,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    Trainer,
)

LOSSES: Mapping[str, Callable[[], Loss]] = {
    "softmax": SoftmaxCrossEntropy,
    "sigmoid": SigmoidCrossEntropy,
    "squares": MeanSquaredError,
    "huber": Huber,
}

OPTIMIZERS: Mapping[str, type[Optimizer]] = {
    "sgd": SGD,
    "adam": Adam,
    "adamw": AdamW,
    "rmsprop": RMSprop,
    "adagrad": Adagrad,
}

USUAL_BATCH = 32
"""Samples of a batch if neither the model nor the user says how many."""

EXAMPLES = """\
glow-nb train model.onnx --data train.npz --loss softmax --epochs 10 --output trained.onnx
glow-nb train model.onnx --data train.npz --loss squares --optimizer sgd --momentum 0.9 \\
    --rate 0.05 --validation test.npz --patience 3 --output trained.onnx"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--data",
    required=True,
    metavar="FILE.npz",
    help="One array for each input under its name, and one more with the targets; samples along "
    "the first axis.",
)
@click.option(
    "--loss",
    type=click.Choice(list(LOSSES)),
    required=True,
    help="The loss: cross entropy over classes (targets are class numbers), binary cross entropy, "
    "mean squared error, or Huber loss.",
)
@click.option(
    "--optimizer",
    type=click.Choice(list(OPTIMIZERS)),
    default="adam",
    show_default=True,
    help="The optimizer: stochastic gradient descent, or one that adapts the step of each weight.",
)
@click.option(
    "--rate",
    type=FiniteRange(0, 1e30),
    metavar="RATE",
    help="Learning rate.  [default: 0.001 for adam and adamw, 0.01 for the others]",
)
@click.option(
    "--momentum",
    type=FiniteRange(0, 1),
    metavar="SHARE",
    help="Momentum of sgd and rmsprop.  [default: 0]",
)
@click.option(
    "--weight-decay",
    type=FiniteRange(0, 1e30),
    metavar="FACTOR",
    help="Weight decay, as a factor of the weight.  [default: 0.01 for adamw, 0 for the others]",
)
@click.option(
    "--clip-norm",
    type=FiniteRange(0, 1e30, min_open=True),
    metavar="LENGTH",
    help="Gradient clipping by the global norm: the largest norm of all gradients together.  "
    "[default: no clipping]",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="Number of passes through the data. Epochs before the checkpoint count, too.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), metavar="N",
    help="Samples of a step. [default: the batch size of the model, or at most 32 if it is open]",
)  # fmt: skip
@click.option(
    "--micro-batches", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="Parts of a batch that are computed one after the other.",
)  # fmt: skip
@click.option(
    "--train",
    "trained",
    multiple=True,
    metavar="GLOB",
    help="Names of constants that are trained. Repeat it for more.  [default: the parameters]",
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="GLOB",
    help="Names of weights that stay as they are. Repeat it for more.  [default: none]",
)
@click.option(
    "--validation",
    metavar="FILE.npz",
    help="Data like --data, evaluated after each epoch.  [default: none]",
)
@click.option(
    "--patience", type=click.IntRange(min=1), metavar="N",
    help="Stop after N epochs without a better loss, that of --validation if it is given. "
    "[default: no early stop]",
)  # fmt: skip
@click.option(
    "--checkpoint", type=OutputPath(), metavar="FILE",
    help="Written after each epoch; if the file exists, training continues from it. [default: "
    "none]",
)  # fmt: skip
@click.option(
    "--output",
    type=OutputPath(),
    required=True,
    metavar="FILE",
    help="The model with its new weights: .onnx of an ONNX model, .glow of IR text.",
)
@seed_option_for("the order of samples, and of the random numbers in the network")
@threads_option
@without_option
@binding_options
def train(
    model: Path,
    data: str,
    loss: str,
    optimizer: str,
    epochs: int,
    batch: int | None,
    micro_batches: int,
    trained: tuple[str, ...],
    freeze: tuple[str, ...],
    validation: str | None,
    patience: int | None,
    checkpoint: Path | None,
    output: Path,
    seed: int,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    **numbers: float | None,
) -> None:
    """Train MODEL and write it with its new weights.

    The weights are trained: the float initializers of an ONNX model with at least one dimension, or
    the float constants of IR text that are not marked fixed. Masks, numbers that are not finite,
    and single numbers of formulas are not trained unless --train names them.
    """
    _check_output(model, output)
    trainer = Trainer(
        open_model(model, bindings, for_training=True),
        loss=LOSSES[loss](),
        optimizer=_optimizer(optimizer, numbers),
        threads=threads,
        without=without,
        trained=trained or None,
        frozen=freeze,
        seed=seed,
        micro_batches=micro_batches,
        metrics={"accuracy": _accuracy} if loss == "softmax" else {},
    )
    if trained:
        _check_written(model, trainer.weights)
    names = trainer.inputs
    inputs, targets = _read_data(data, names)
    size = batch or trainer.batch or min(USUAL_BATCH, max(1, len(np.atleast_1d(targets))))
    judged = None if validation is None else (*_read_data(validation, names), size)
    if checkpoint is not None and checkpoint.exists():
        trainer.load(checkpoint)
        click.echo(f"continues from {checkpoint}: {trainer.epochs} epochs, {trainer.steps} steps")
    history = trainer.fit(
        (inputs, targets, size),
        epochs,
        judged,
        patience=patience,
        checkpoint=checkpoint,
    )
    for epoch in history:
        click.echo(_described(epoch))
    _write(model, trainer, output)
    click.echo(f"saved {output}")


def _check_output(model: Path, output: Path) -> None:
    wanted = SUFFIX if model.suffix == SUFFIX else ".onnx"
    if output.suffix != wanted:
        raise click.BadParameter(
            f"{output} is not named FILE{wanted}, as {model} is", param_hint="'--output'"
        )


def _check_written(model: Path, weights: Iterable[str]) -> None:
    """Raise OptionError if an ONNX model has no place for new numbers of one of its *weights*."""
    if model.suffix == SUFFIX:
        return
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    places = {tensor.name for tensor in graph.initializer}
    for name in weights:
        if name not in places:
            raise OptionError(
                f"--train: {name!r} is no initializer of {model}, so its new numbers could not be "
                "written; leave it out, or make it an initializer"
            )


def _optimizer(name: str, numbers: Mapping[str, float | None]) -> Optimizer:
    given: dict[str, Any] = {key: value for key, value in numbers.items() if value is not None}
    known = OPTIMIZERS[name]
    for key in given:
        if key not in known.__dataclass_fields__:
            option = key.replace("_", "-")
            raise OptionError(f"--{option} {given[key]}: the optimizer {name} has no {option}")
    return known(**given)


def _read_data(path: str, names: list[str]) -> tuple[dict[str, Array], Array]:
    """Return the arrays of an archive by the *names* of inputs, and that of the targets."""
    arrays = read_npz(path)
    missing = [name for name in names if name not in arrays]
    others = [name for name in arrays if name not in names]
    if missing or len(others) != 1:
        raise OptionError(
            f"data file {path}: it holds {listed(arrays)}; it must hold the inputs {names} and one "
            "array more, the targets"
        )
    return {name: arrays[name] for name in names}, arrays[others[0]]


def _accuracy(prediction: Array, targets: Array) -> float:
    classes = targets.argmax(1) if targets.shape == prediction.shape else targets
    return float(np.mean(prediction.argmax(1) == classes))


def _described(epoch: Epoch) -> str:
    scores = epoch.validation or {}
    more = "".join(f", validation {name} {score:.6g}" for name, score in scores.items())
    steps = f"{epoch.steps} steps, {epoch.seconds:.2f} s"
    return f"epoch {epoch.number}: loss {epoch.loss:.6g}{more} ({steps})"


def _write(model: Path, trainer: Trainer, output: Path) -> None:
    if output.suffix == SUFFIX:
        save_text(trainer.freeze(), output)
        return
    import onnx

    from glow_nb.formats.onnx.importer.updating import in_inference_mode, with_weights
    from glow_nb.formats.onnx.importer.whole import whole_model

    updated = in_inference_mode(with_weights(whole_model(str(model)), trainer.weights))
    replace_file(output, lambda place: onnx.save(updated, place))
