"""The networks of a trainer: a step and a network for each set of sizes, on shared states."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from glow_nb.backends import BackendLike
from glow_nb.base.arguments import described, whole_number
from glow_nb.base.errors import FeedError, ModelError, OptionError
from glow_nb.base.feeds import Feeds
from glow_nb.base.steps import Entries, Step
from glow_nb.base.types import Array, TensorType
from glow_nb.compiler.pipelines import TRAINING
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function, State, Value
from glow_nb.hlir.rewrite import substitute
from glow_nb.network.memory_report import MemoryReport
from glow_nb.network.network import Network
from glow_nb.network.source import Shapes, Source, shapes_of
from glow_nb.train.forms import (
    generators_of,
    inference_form,
    seed_numbers,
    statistics_of,
    training_form,
    without_mode,
)
from glow_nb.train.losses import Loss, LossFunction, samples_of
from glow_nb.train.networks import Networks
from glow_nb.train.optimizers import Optimizer
from glow_nb.train.run_step import Arrays, Batch, StepRun
from glow_nb.train.selection import Selection, select
from glow_nb.train.states import TrainerStates
from glow_nb.train.step import (
    LOSS,
    PREDICTION,
    TARGET,
    StepFunctions,
    loss_function,
    make_step,
    saved_as,
    with_loss,
    with_states,
)


@dataclass(frozen=True)
class SizedModel:
    """A model for one set of sizes.

    Attributes:
        function: As it came, with its weights as constants.
        states: The state of each constant that is trained.
        trained: The same with these states.
        infer: This as it is used.
        output: The name of the output that the loss is for.
        prediction: Its type.
    """

    function: Function
    states: Mapping[Constant, State]
    trained: Function
    infer: Function
    output: str
    prediction: TensorType


class Engine:
    """Compiles and runs steps; a step that fails leaves all states as they were."""

    def __init__(
        self,
        source: Source,
        loss: LossFunction,
        optimizer: Optimizer,
        *,
        trained: Sequence[str] | None,
        frozen: Sequence[str],
        output: str | None,
        parts: int,
        checks: bool,
        seed: int,
        recompute: int | str | None,
        backend: BackendLike,
        threads: int,
        without: Collection[str],
        options: Mapping[str, object],
    ) -> None:
        """Train the model of *source*, its *output* being what the *loss* is for."""
        self._source, self._loss, self._optimizer = source, loss, optimizer
        self._trained, self._frozen, self._output = trained, frozen, output
        self.selection: Selection | None = None
        self._parts, self._checks, self._seed = parts, checks, seed
        if parts > 1 and source.batch is not None:
            raise OptionError(
                f"micro_batches={parts}: the network takes batches of {source.batch} alone, which "
                "cannot be cut; give a model that leaves the size of its batch open"
            )
        self.states = TrainerStates()
        self._networks = Networks(
            backend, threads, pipeline_with(recompute), self.states.store, without, options
        )
        self._models: dict[Shapes, SizedModel] = {}
        self._steps: dict[tuple[Shapes, TensorType], StepFunctions] = {}
        self._losses: dict[tuple[TensorType, TensorType], Function] = {}
        self._states: dict[str, State] = {}
        self._last: Shapes | None = None
        self._example = source.example()
        if self._example is not None:
            self._sized(self._example)

    @property
    def weights(self) -> dict[str, TensorType]:
        """The names and types of the weights that are trained, as far as they are known."""
        return {name: state.type for name, state in self._states.items()}

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs of the model."""
        return self._source.inputs

    @property
    def batch(self) -> int | None:
        """The number of samples of a batch; None if that is open."""
        return self._source.batch

    def model(self, shapes: Shapes) -> SizedModel:
        """Return the model for inputs of *shapes*."""
        if shapes not in self._models:
            self._models[shapes] = self._sized(self._source.function(shapes))
        self._last = shapes
        return self._models[shapes]

    def _sized(self, source: Function) -> SizedModel:
        function = without_mode(source)
        self.selection = select(function, self._trained, self._frozen, self._states)
        weights = self.selection.weights
        for kind in {weight.type.kind for weight in weights}:
            self._optimizer.check_kind(kind)
        states = {weight: self._state_of(weight) for weight in weights}
        trained = with_states(function, states, "infer")
        output = saved_as(trained, self._output).output
        infer = inference_form(trained)
        return SizedModel(function, states, trained, infer, output.name, output.type)

    def _state_of(self, weight: Constant) -> State:
        """Return the state that *weight* is in, which is the same one for all sizes."""
        if weight.name not in self._states:
            state = State(weight.name, weight.type, payload=weight.payload)
            self.states.store.add([state])
            self._states[weight.name] = state
        state = self._states[weight.name]
        if state.type != weight.type:
            raise ModelError(
                f"weight {weight.name!r} is {state.type} for some sizes of the inputs and "
                f"{weight.type} for others; a weight that is trained must have one shape"
            )
        return state

    def arrays(self, inputs: Feeds) -> dict[str, Array]:
        """Return one array for each input; raise FeedError if they do not fit."""
        return self._source.arrays(inputs)

    def targets(self, arrays: Arrays, targets: Array) -> Array:
        """Return *targets* as the network takes them; raise FeedError if they do not fit."""
        prediction = self.model(shapes_of(arrays)).prediction
        return self._loss.targets(prediction, targets) if isinstance(self._loss, Loss) else targets

    def count(self, targets: Array) -> float:
        """Return what the loss of *targets* counts beside that of others."""
        return self._loss.count(targets) if isinstance(self._loss, Loss) else samples_of(targets)

    def step(self, arrays: Arrays, targets: Array) -> float:
        """Make a step and return the loss, the mean of its parts by what they count.

        Raises:
            TrainingError: The loss or a gradient is not finite.
        """
        self.states.settle()
        parts = self._cut(arrays, targets)
        functions, network = self._step_for(*parts[0])
        run = StepRun(functions, network, self.states, self._optimizer.numbers(self.states.steps))
        if self._parts == 1:
            return run.whole(parts[0])
        return run.in_parts(parts, [self.count(wanted) for _, wanted in parts])

    def _cut(self, arrays: Arrays, targets: Array) -> list[Batch]:
        """Return the parts of a batch; what fits as a whole may not in parts."""
        if self._parts == 1:
            return [(arrays, targets)]
        parts: list[Batch] = []
        for index in range(self._parts):
            inputs, wanted = _part(arrays, targets, index, self._parts)
            try:
                parts.append((inputs, self.targets(inputs, wanted)))
            except FeedError as error:
                first, last = index * len(wanted), (index + 1) * len(wanted) - 1
                raise FeedError(
                    f"micro-batch {index + 1} of {self._parts}, samples {first} to {last} of the "
                    f"batch: {error}; give fewer micro_batches=, or samples in another order"
                ) from error
        return parts

    def predict(self, arrays: Arrays) -> dict[str, Array]:
        """Return the outputs of the model for inputs *arrays*, in its form for inference."""
        self.states.settle()
        shapes = shapes_of(arrays)
        infer = self.model(shapes).infer
        return self._networks.network(shapes, (infer,), is_whole=False)["infer"].run(arrays)

    def judge(self, arrays: Arrays, targets: Array) -> tuple[Array, float]:
        """Return what the model predicts for inference, and the loss of that, by NumPy."""
        model = self.model(shapes_of(arrays))
        prediction = self.predict(arrays)[model.output]
        types = TensorType.of(prediction), TensorType.of(targets)
        if types not in self._losses:
            self._losses[types] = loss_function(self._loss, *types)
        feeds = {PREDICTION: prediction, TARGET: targets}
        return prediction, float(evaluate(self._losses[types], feeds)[LOSS].item())

    def memory(self, arrays: Arrays, targets: Array) -> MemoryReport:
        """Return what a step on such a batch needs in memory."""
        _, network = self._step_for(*_part(arrays, targets, 0, self._parts))
        return network["train"].memory

    def network(self, arrays: Arrays, targets: Array) -> Network:
        """Return what a step on such a batch is made of, and ``infer``, compiled for the states."""
        self.states.settle()
        functions, _ = self._step_for(*_part(arrays, targets, 0, self._parts))
        infer = self.model(shapes_of(arrays)).infer
        made = (*(f for f in (functions.train, functions.apply) if f is not None), infer)
        return self._networks.network(tuple(map(id, made)), made)

    def restore(self, values: Arrays, steps: int, seed: int) -> None:
        """Let the states have *values*, and all others what they begin with under *seed*."""
        begun = {state.name: state.array for made in self._steps.values() for state in made.state}
        for (shapes, _), made in self._steps.items():
            own = generators_of(self._models[shapes].trained)
            for generator in generators_of(made.forward) - own:
                begun[generator.name] = seed_numbers(seed)
        self._seed = seed
        self.states.replace(steps, {**begun, **values})

    def frozen_model(self, shapes: Shapes | None) -> Function:
        """Return the model with the values of its states as constants, for inputs of *shapes*.

        Without shapes it is the one whose sizes are fixed, or those that came last.
        """
        _, values = self.states.snapshot()
        wanted = shapes or self._last
        if wanted is not None:
            model = self.model(wanted)
        elif self._example is not None:
            model = self._sized(self._example)
        else:
            raise OptionError(
                "the network leaves sizes open, and no batch has come yet; give inputs= to say "
                "which sizes the function is to have"
            )
        found: dict[Value, Value] = {
            old: Constant.of(old.name, values[old.name]) for old in model.states
        }
        return inference_form(substitute(model.function, found))

    def _step_for(self, arrays: Arrays, targets: Array) -> tuple[StepFunctions, Network]:
        key = shapes_of(arrays), TensorType.of(targets)
        if key not in self._steps:
            model = self.model(key[0])
            forward, loss, target = with_loss(model.trained, self._loss, key[1], model.output)
            counter = self.states.counter_beside(forward)
            statistics = statistics_of(model.trained)
            weights = [state for state in model.states.values() if state not in statistics]
            self._steps[key] = make_step(
                training_form(forward, self._seed, {counter.name, *self._states}),
                loss,
                target,
                weights,
                self._optimizer,
                counter,
                taken=self._states,
                parts=self._parts,
                checks=self._checks,
                passes=self._networks.passes_before,
            )
        functions = self._steps[key]
        made = [f for f in (functions.train, functions.apply) if f is not None]
        return functions, self._networks.network(key, tuple(made))


def pipeline_with(recompute: int | str | None) -> Entries:
    """Return the passes for a step that computes values again: for *recompute* bytes, or "auto"."""
    if recompute is None:
        return TRAINING
    if isinstance(recompute, str) and recompute != "auto":
        raise OptionError(
            f"recompute={described(recompute)}: give a number of bytes, 'auto' or None"
        )
    budget = 0 if isinstance(recompute, str) else whole_number("recompute", recompute, 0)
    return (*TRAINING, Step("rematerialize", {"budget": budget}, is_last=True))


def _part(arrays: Arrays, targets: Array, index: int, count: int) -> Batch:
    """Return one of *count* parts of a batch, all of which have the same size."""
    if count == 1:
        return arrays, targets
    for name, array in (*arrays.items(), ("targets", targets)):
        if not array.ndim or len(array) % count:
            raise FeedError(
                f"{name}: shape {list(array.shape)} cannot be cut into {count} micro-batches of "
                "one size; give a batch of a multiple of them"
            )

    def cut(array: Array) -> Array:
        size = len(array) // count
        return array[index * size : (index + 1) * size]

    return {name: cut(array) for name, array in arrays.items()}, cut(targets)
