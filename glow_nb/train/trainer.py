"""The trainer: steps, epochs, evaluation, and the trained network."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from typing_extensions import override

from glow_nb.backends import BackendLike
from glow_nb.base.arguments import as_array, as_path, described, truth, whole_number
from glow_nb.base.errors import FeedError, ModelError, OptionError
from glow_nb.base.feeds import Feeds
from glow_nb.base.precision import Precision
from glow_nb.base.progress import tell
from glow_nb.base.types import Array
from glow_nb.base.uncopied import Uncopied
from glow_nb.hlir.graph import Function
from glow_nb.network.compiling import as_threads
from glow_nb.network.memory_report import MemoryReport
from glow_nb.network.network import Network
from glow_nb.network.source import Trained, as_source, shapes_of
from glow_nb.system.replaced_files import check_writable
from glow_nb.train.batches import Batches, Data, Stream, as_batches
from glow_nb.train.checkpoint import Checkpoint, check_weights, read_checkpoint, write_checkpoint
from glow_nb.train.engine import Engine
from glow_nb.train.evaluation import Metric, mean_scores, whole_batches
from glow_nb.train.fitting import FitState, History, Place, Score, run_fit
from glow_nb.train.losses import LossFunction
from glow_nb.train.numbers import MOST_INTEGER
from glow_nb.train.optimizers import Optimizer
from glow_nb.train.selection import as_patterns


class Trainer(Uncopied):
    """Trains the weights of a network.

    Example::

        trainer = Trainer("digits.onnx", loss=SoftmaxCrossEntropy(), optimizer=Adam(1e-3))
        trainer.fit((images, labels, 64), epochs=10)
        net = glow_nb.compile(trainer.freeze())

    The weights are trained: the float initializers of an ONNX model with at least one dimension,
    the float constants of IR text that are not ``fixed``, and those of a builder's graph that were
    not made with ``is_weight=False``. Some of these are no parameters, and are not trained unless
    ``trained=`` names them: constants with infinities or NaN, masks (of zeros and numbers of -100
    and below), constants of one element that are no bias, filter or scale of a layer (such as the
    scale of attention), and constants that reach the outputs only through comparisons, shapes or
    integers. Position embeddings are trained: ``frozen=`` can name them. The first ``fit`` lists
    what it trains. Weights keep their names. Open sizes of the model are those of the batches; for
    each set of sizes a step is compiled, and a network for :meth:`predict`. The 16 networks that
    were used last are kept.

    An interrupt (Ctrl-C) during a step either completes or cancels it: weights, momenta, the number
    of the step and random numbers are all from before the step, or all from after it.

    Attributes:
        loss: The loss to minimize.
        optimizer: The optimizer.
    """

    UNCOPIED = (
        "a trainer cannot be copied or pickled, its steps are machine code in this process; save "
        "it (trainer.save(path)), make another one of the same model, and load that (load(path))"
    )

    def __init__(
        self,
        function: Trained,
        *,
        loss: LossFunction,
        optimizer: Optimizer,
        threads: int | None = None,
        trained: Iterable[str] | None = None,
        frozen: Iterable[str] = (),
        seed: int = 0,
        recompute: int | str | None = None,
        micro_batches: int = 1,
        check_gradients: bool = True,
        output: str | None = None,
        metrics: Mapping[str, Metric] | None = None,
        backend: BackendLike = "cpu",
        without: Collection[str] = (),
        precision: Precision | None = None,
        keep: Collection[str] | None = None,
    ) -> None:
        """Prepare to train *function*.

        Args:
            function: A model, as for ``glow_nb.load``; sizes may be open. Or a Python function that
                takes the size of a batch and returns the graph for it.
            loss: A loss of this package, or a function ``(builder, prediction, target) -> value``
                that emits nodes and returns a float of one element.
            optimizer: The optimizer.
            threads: Cores that share the work; all that are available by default.
            trained: Names of the weights to train, or patterns such as ``"head.*"``, and names of
                other float constants; by default the parameters, see above.
            frozen: Names or patterns of weights that are not trained.
            seed: Seed of the order of samples, and of the random numbers in the network.
            recompute: Rematerialization: compute cheap activations again in the backward pass
                instead of keeping them, until activations need at most this number of bytes, or
                with ``"auto"`` as long as it saves memory. :meth:`memory` shows the result.
            micro_batches: Gradient accumulation: a step runs over this number of parts of its
                batch, one after the other, and uses their mean gradient, for batches whose
                activations need too much memory. A part is weighted by its targets, as in the loss
                of the whole batch (by their class weights, without ignored targets), and must have
                a target that is not ignored. With a function as loss, all parts have the same
                weight.
            check_gradients: Refuse a step if a gradient is not finite although the loss is. All
                gradients are computed before the first weight changes, which needs memory for all
                of them, and time to check them. False saves both, but such a gradient then changes
                its weight. With ``clip_norm=`` gradients are checked in any case.
            output: The output that the loss gets; by default the only one.
            metrics: The metrics that ``evaluate`` computes besides the loss, by name.
            backend: As for ``glow_nb.compile``.
            without: Passes that are left out, as for ``glow_nb.compile``.
            precision: As for ``glow_nb.compile``: "bfloat16" rounds the factors of products, those
                of the backward pass too. Weights, their gradients and the optimizer are float32.
            keep: Layers whose products in the forward pass stay float32, as for
                ``glow_nb.compile``.

        Raises:
            OptionError: An argument has no meaning, or no weights are left to train.
            ModelError, UnsupportedError, ParseError: As ``glow_nb.load``.
        """
        if isinstance(loss, type):
            name = loss.__name__
            raise OptionError(f"loss={name}: a class; give an object of it, as {name}()")
        if not callable(loss):
            raise OptionError(
                f"loss={described(loss)}: give a loss of glow_nb.train, or a function"
            )
        if not isinstance(optimizer, Optimizer):
            raise OptionError(
                f"optimizer={described(optimizer)}: give one of glow_nb.train, as Adam()"
            )
        self.loss, self.optimizer = loss, optimizer
        self._seed = whole_number("seed", seed, 0, MOST_INTEGER)
        if not isinstance(metrics, Mapping | None):
            raise OptionError(f"metrics={described(metrics)}: give a dict of functions by name")
        self._metrics = dict(metrics or {})
        if "loss" in self._metrics:
            raise OptionError("metrics: 'loss' is the name of the loss itself; choose another one")
        self._output = output
        self._has_told = False  # what is trained
        self._place = Place(FitState(begin=0))
        self._goes_on_at: int | None = None  # the steps of a checkpoint within a fit
        self._engine = Engine(
            as_source(function, for_training=True),
            loss,
            optimizer,
            trained=None if trained is None else as_patterns("trained", trained),
            frozen=as_patterns("frozen", frozen),
            output=output,
            parts=whole_number("micro_batches", micro_batches, 1),
            checks=truth("check_gradients", check_gradients),
            seed=self._seed,
            recompute=recompute,
            backend=backend,
            threads=as_threads(threads),
            without=without,
            options={
                name: value
                for name, value in (("precision", precision), ("keep", keep))
                if value is not None
            },
        )

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return self._engine.states.steps

    @property
    def epochs(self) -> int:
        """The number of epochs of ``fit`` so far."""
        return self._place.fit.epochs

    @property
    def weights(self) -> dict[str, Array]:
        """Copies of the weights that are trained, by name."""
        _, values = self._engine.states.snapshot()
        return {name: values[name] for name in self._engine.weights}

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs of the network."""
        return self._engine.inputs

    @property
    def batch(self) -> int | None:
        """The number of samples of a batch; None if the network leaves it open."""
        return self._engine.batch

    def step(self, inputs: Feeds, targets: Array) -> float:
        """Make one step on a batch and return the loss before the step.

        Args:
            inputs: One array for each input by name, or a bare array if there is one input.
            targets: The targets that the loss compares with the output.

        Raises:
            FeedError: The arrays do not fit the network or the loss; nothing was changed.
            TrainingError: The loss is not finite, and the error names the first operator whose
                result is not finite; or a gradient, or with ``clip_norm=`` the global norm, is not
                finite, and the error names the weights. Nothing was changed.
            GradientError: The loss depends on no weight, or operators before it have no gradient.
        """
        arrays, wanted = self._checked(inputs, targets)
        return self._engine.step(arrays, wanted)

    def _checked(self, inputs: Feeds, targets: Array) -> tuple[dict[str, Array], Array]:
        wanted = as_array("targets", targets)
        if not wanted.size:
            raise FeedError(
                f"targets: shape is {list(wanted.shape)}, which holds no sample; give one or more"
            )
        arrays = self._engine.arrays(inputs)
        return arrays, self._engine.targets(arrays, wanted)

    def fit(
        self,
        batches: Data,
        epochs: int,
        validation: Data | None = None,
        *,
        patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int | None = None,
        progress: bool | None = None,
    ) -> History:
        """Train for some epochs and return the results of each.

        After :meth:`load` of a checkpoint that was written within a ``fit``, the first call
        continues that ``fit`` from the same batch, and its epochs count.

        Args:
            batches: ``(inputs, targets, batch_size)``: whole arrays, which are shuffled in each
                epoch; samples that do not fill the last batch are dropped. Or
                :class:`Batches`, or anything that can be iterated for each epoch and gives pairs
                of inputs and targets.
            epochs: The number of epochs.
            validation: The data of :meth:`evaluate` after each epoch.
            patience: Early stopping: stop after this number of epochs without a new minimum of the
                validation loss or, without *validation*, of the loss.
            checkpoint: A file that is written after each epoch.
            every: Also write it after every such number of steps.
            progress: False shows nothing. By default there is a bar on a terminal, and elsewhere a
                line every few seconds: on standard error, or, if the program has set up logging, by
                the logger "glow_nb". True always writes the lines to standard error.

        Raises:
            FeedError, TrainingError, GradientError: As :meth:`step`.
            OptionError: An argument has no meaning.
            GlowError: The checkpoint cannot be written.
        """
        path = None if checkpoint is None else as_path(checkpoint)
        wanted = whole_number("epochs", epochs, 0)
        steps = None if every is None else whole_number("every", every, 1)
        limit = None if patience is None else whole_number("patience", patience, 1)
        data = as_batches(batches, seed=self._seed)
        judged = None if validation is None else whole_batches(validation, self._engine.batch)
        if path is not None:
            check_writable(path)
        if not self._has_told and self._engine.selection is not None:
            self._has_told = True
            tell(f"training: {self._engine.selection}", progress)
        if self._unfinished_fit is None:
            self._place.fit = FitState(begin=self.epochs)

        def after_step() -> None:
            fit = self._place.fit
            is_end = fit.batch == 0
            if path is not None and (is_end or (steps and self.steps % steps == 0)):
                is_done = is_end and fit.epochs >= fit.begin + wanted
                self._save(path, None if is_done else fit)

        history = run_fit(
            self.step,
            self._place,
            data,
            wanted,
            validate=None if judged is None else lambda: self._evaluate(judged),
            patience=limit,
            after_step=after_step,
            progress=progress,
        )
        self._goes_on_at = None
        return history

    @property
    def _unfinished_fit(self) -> FitState | None:
        """Where a ``fit`` is that was loaded, if no step was made since."""
        return self._place.fit if self._goes_on_at == self.steps else None

    def evaluate(self, batches: Data) -> Score:
        """Return the mean loss over all samples, and the mean of each metric, for the current
        weights.

        A batch is weighted by its samples; in the mean loss, by its targets (their class weights,
        without ignored targets). The network is in inference mode. Whole arrays are taken in their
        order; the last batch may be smaller, and the network is then compiled once more for it.
        """
        return self._evaluate(whole_batches(batches, self._engine.batch))

    def _evaluate(self, batches: Batches | Stream) -> Score:
        checked = (self._checked(inputs, targets) for inputs, targets in batches.epoch(0))
        return mean_scores(self._engine, checked, self._metrics)

    def predict(self, inputs: Feeds) -> dict[str, Array]:
        """Return the outputs of the network for a batch, in inference mode."""
        return self._engine.predict(self._engine.arrays(inputs))

    def freeze(self, inputs: Feeds | None = None) -> Function:
        """Return the network for inference, with the weights as constants of the same names.

        Args:
            inputs: Arrays with the sizes of the function, for a model with open sizes; by default
                the last batch.
        """
        if inputs is None:
            return self._engine.frozen_model(None)
        return self._engine.frozen_model(shapes_of(self._engine.arrays(inputs)))

    def memory(self, inputs: Feeds, targets: Array) -> MemoryReport:
        """Return the memory of a step on such a batch, compiling the step if its sizes are new."""
        return self._engine.memory(*self._checked(inputs, targets))

    def network(self, inputs: Feeds, targets: Array) -> Network:
        """Return the step on such a batch as a network, ``train``, and ``infer`` for predictions.

        Both use the weights of this trainer; a bundle or saved network of them begins with the
        current values. The inputs of ``train`` are those of the model, the targets, and the numbers
        of the optimizer, such as the rate. With ``micro_batches``, ``train`` accumulates the
        gradients of a part, and ``apply`` makes the step.
        """
        return self._engine.network(*self._checked(inputs, targets))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint from which :meth:`load` continues, bit for bit.

        It is a safetensors file with the weights, the tensors of the optimizer, and the numbers of
        steps and epochs. The file is replaced as a whole.
        """
        self._save(as_path(path), self._unfinished_fit)

    def _save(self, path: Path, fit: FitState | None) -> None:
        steps, values = self._engine.states.snapshot()
        weights, kept = tuple(self._engine.weights), tuple(self.optimizer.kept)
        epochs = self.epochs if fit is None else fit.epochs
        write_checkpoint(path, Checkpoint(values, weights, kept, steps, epochs, self._seed, fit))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continue from a checkpoint of the same network and kind of optimizer.

        Raises:
            ModelError: It cannot be read, or belongs to another network; nothing was changed.
        """
        place = as_path(path)
        found = read_checkpoint(place)
        if self._engine.weights:  # of a model with open sizes they may come with the first batch
            check_weights(place, found, self._engine.weights)
        if list(found.kept) != list(self.optimizer.kept):
            raise ModelError(
                f"{place}: its optimizer kept {list(found.kept)} for each weight, "
                f"{type(self.optimizer).__name__} keeps {list(self.optimizer.kept)}; load it into "
                "a trainer with the optimizer that it was written with"
            )
        self._engine.restore(found.values, found.steps, found.seed)
        self._seed = found.seed
        self._goes_on_at = None
        self._place.fit = found.fit or FitState(begin=found.epochs)
        self._goes_on_at = None if found.fit is None else found.steps

    @override
    def __repr__(self) -> str:
        weights = self._engine.weights.values()
        numbers = sum(type.size for type in weights)
        return (
            f"<Trainer of {len(weights)} weights with {numbers} numbers, {self.steps} steps made>"
        )
