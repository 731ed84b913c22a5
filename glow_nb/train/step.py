"""One step of training as a function: the loss, its gradients, and the new weights.

The constants that are trained become states of the same names; what an optimizer keeps for the
weight ``w`` is a state ``w.momentum``, and so on. All states keep their values where the loss is
not finite, so that a step that fails changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from glow_nb.errors import FeedError, OptionError, VerifyError
from glow_nb.foreign import foreign, name_of
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import emit_gradients
from glow_nb.hlir.graph import Constant, Function, State, Value, producer_of
from glow_nb.hlir.ops.arithmetic import And
from glow_nb.hlir.ops.comparison import Less, Select
from glow_nb.hlir.ops.elementwise import Abs
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.passes import GRAPH_PASSES
from glow_nb.hlir.rewrite import substitute
from glow_nb.hlir.save import Save, is_update
from glow_nb.hlir.terms import Term
from glow_nb.pipelines import TRAINING
from glow_nb.schema import closest, operands_of
from glow_nb.train.losses import LossFunction
from glow_nb.train.optimizers import Optimizer, clip_to_norm
from glow_nb.train.sums import beside
from glow_nb.types import ElementKind, TensorType

LOSS, PREDICTION, TARGET = "loss", "prediction", "target"


@dataclass(frozen=True)
class StepFunctions:
    """The functions of a step, over the same states.

    Attributes:
        forward: The loss alone, in terms of the model's nodes: what a fault is looked for in.
        train: The whole step; of one that is made in parts, the gradients of a part.
        target: The name of the input for the targets.
        loss: The name of the output.
        numbers: The name of the input for each number that an optimizer feeds.
        share: Of a step that is made in parts, the name of the input for what a part counts.
        number_kind: The kind of these inputs.
    """

    forward: Function
    train: Function
    apply: Function | None
    gradients: tuple[State, ...]
    target: str
    loss: str
    numbers: Mapping[str, str]
    share: str | None
    number_kind: ElementKind

    @property
    def state(self) -> tuple[State, ...]:
        """The states of all functions."""
        return (*self.train.state, *(() if self.apply is None else self.apply.state))


def weights_of(function: Function, frozen: Iterable[str]) -> tuple[Constant, ...]:
    """Return the constants of *function* that are trained: its weights that are not *frozen*.

    Raises:
        OptionError: A pattern of *frozen* fits no weight, or nothing is left.
    """
    weights = [c for c in function.constants if c.is_weight and c.type.kind.is_float]
    names = [weight.name for weight in weights]
    patterns = list(frozen)
    for pattern in patterns:
        if not any(_fits(name, pattern) for name in names):
            raise OptionError(
                f"frozen: {pattern!r} fits no weight{closest(pattern, names)}; there are {names}"
            )
    left = [w for w in weights if not any(_fits(w.name, pattern) for pattern in patterns)]
    if not left:
        raise OptionError(
            f"function {function.name!r} has no weights to train: "
            + (f"all of {names} are frozen" if names else "it reads no constants of floats")
        )
    return tuple(left)


def _fits(name: str, pattern: str) -> bool:
    """Return whether *pattern* is *name*, which may have brackets, or a glob that fits it."""
    return name == pattern or fnmatchcase(name, pattern)


def with_states(function: Function, states: Mapping[Constant, State], name: str) -> Function:
    """Return *function*, called *name*, with states in the place of constants."""
    mapping: dict[Value, Value] = dict(states.items())
    return dataclasses.replace(substitute(function, mapping), name=name)


def saved_as(function: Function, output: str | None) -> Save:
    """Return the node that saves the *output* of *function*, by default its only one."""
    names = [placeholder.name for placeholder in function.outputs]
    if not isinstance(output, str | None):
        raise OptionError(f"output={output!r:.80}: give the name of an output of {names}")
    if output is None and len(names) != 1:
        raise OptionError(f"the network has the outputs {names}; say by output= which is trained")
    wanted = output or names[0]
    for node in function.nodes:
        if isinstance(node, Save) and node.output.name == wanted:
            return node
    raise OptionError(f"output={wanted!r}{closest(wanted, names)}: the network has {names}")


def with_loss(
    function: Function, loss: LossFunction, target: TensorType, output: str
) -> tuple[Function, str, str]:
    """Return *function* with the loss as its only output, and the names of loss and target."""
    builder = Builder.continuing(function)
    builder.nodes = [
        node for node in builder.nodes if not isinstance(node, Save) or is_update(node)
    ]
    builder.outputs = []
    placeholder = builder.input(TARGET, target)
    value = _emit_loss(builder, loss, saved_as(function, output).input, placeholder)
    saved = builder.save(value, builder.unique_name(LOSS))
    return builder.function(), saved.name, placeholder.name


def loss_function(loss: LossFunction, prediction: TensorType, target: TensorType) -> Function:
    """Return a function of a prediction and a target whose output is the loss."""
    builder = Builder(LOSS)
    inputs = [builder.input(PREDICTION, prediction), builder.input(TARGET, target)]
    builder.save(_emit_loss(builder, loss, *inputs), LOSS)
    return builder.function()


def _emit_loss(builder: Builder, loss: LossFunction, prediction: Value, target: Value) -> Value:
    try:
        with foreign(OptionError, f"loss {name_of(loss)!r}"):
            value = loss(builder, prediction, target)
    except VerifyError as error:
        raise FeedError(
            f"loss {name_of(loss)!r}: it takes no prediction of {prediction.type} with targets of "
            f"{target.type}: {error}; convert the targets, or let the loss do it"
        ) from error
    if not isinstance(value, Value) or value.type.size != 1 or not value.type.kind.is_float:
        raise OptionError(
            f"loss {name_of(loss)!r} returned {value!r:.80}; it must return a float of one element"
        )
    made_by = producer_of(value)
    if made_by is not None and made_by not in builder.nodes:
        raise OptionError(
            f"loss {name_of(loss)!r} returned {made_by!r}, which it has not emitted; it must emit "
            "each node, as in return builder.emit(ReduceMean(...))"
        )
    return value


def make_step(
    forward: Function,
    loss: str,
    target: str,
    weights: Sequence[State],
    optimizer: Optimizer,
    parts: int,
) -> StepFunctions:
    """Return what a step is made of, *forward* having the output *loss*.

    Args:
        forward: The model in its training form, with the loss as its only output.
        loss: The name of the output.
        target: The name of the input of targets.
        weights: What is trained, if the loss depends on it.
        optimizer: How new weights come from gradients.
        parts: How many batches a step has; their gradients are added, each times what is fed as
            its share.

    Raises:
        GradientError: As :func:`glow_nb.differentiate`.
    """
    prepared = GRAPH_PASSES.run(forward, TRAINING)
    builder = Backward.continuing(prepared)
    builder.name = "train"
    value = saved_as(prepared, loss).input
    reached = _reached(prepared, value)
    trained = [weight for weight in weights if weight in reached] or list(weights)
    found = emit_gradients(builder, value, trained)
    gradients = {weight: found[weight] for weight in trained}
    updates = _take_updates(builder)
    is_finite = _is_finite(builder, value)
    number_kind = _number_kind(gradients)
    if parts == 1:
        changes, guard, numbers = _changes(builder, optimizer, gradients)
        updates |= changes
        is_finite = is_finite if guard is None else builder.emit(And(is_finite, guard))
        _save_all(builder, updates, is_finite)
        train = builder.function()
        return StepFunctions(forward, train, None, (), target, loss, numbers, None, number_kind)
    share = builder.input("share", TensorType(number_kind, ()))
    sums = {weight: _kept(builder, weight, "gradient", 0.0) for weight in trained}
    for weight, state in sums.items():
        factor = Term(builder, beside(builder, share, weight.type))
        updates[state] = (Term(builder, state) + Term(builder, gradients[weight]) * factor).value
    _save_all(builder, updates, is_finite)
    train, (apply, numbers) = builder.function(), _apply_function(optimizer, sums)
    gathered = tuple(sums.values())
    return StepFunctions(
        forward, train, apply, gathered, target, loss, numbers, share.name, number_kind
    )


def _number_kind(weights: Iterable[State]) -> ElementKind:
    """Return the kind of what is fed beside samples: float64 if a weight is, else float32."""
    is_wide = any(weight.type.kind is ElementKind.FLOAT64 for weight in weights)
    return ElementKind.FLOAT64 if is_wide else ElementKind.FLOAT32


Changes = dict[State, Value]


def _take_updates(builder: Builder) -> Changes:
    """Return what the states get, and take it out of *builder*."""
    updates: Changes = {}
    for node in filter(is_update, builder.nodes):
        assert isinstance(node.output, State)
        updates[node.output] = node.input
    builder.nodes = [node for node in builder.nodes if not is_update(node)]
    return updates


def _apply_function(
    optimizer: Optimizer, sums: Mapping[State, State]
) -> tuple[Function, dict[str, str]]:
    """Return what gives the weights new values by their *sums* of gradients and empties these.

    Also the input of each number that the optimizer feeds.
    """
    builder = Builder("apply", taken=(state.name for state in (*sums, *sums.values())))
    changes, guard, numbers = _changes(builder, optimizer, sums)
    _save_all(builder, changes, guard)
    for state in sums.values():
        builder.update(state, (Term(builder, state) * 0.0).value)
    return builder.function(), numbers


def _changes(
    builder: Builder, optimizer: Optimizer, gradients: Mapping[State, Value]
) -> tuple[Changes, Value | None, dict[str, str]]:
    """Emit what *optimizer* makes of *gradients*.

    Returns:
        The new value of each weight and of all that is kept for it; if the length of the gradients
        is computed, which is an output then, whether it is finite; the input of each number that
        the optimizer feeds.
    """
    number = TensorType(_number_kind(gradients), ())
    inputs = {name: builder.input(name, number) for name in optimizer.numbers(0)}
    terms = {weight: Term(builder, gradient) for weight, gradient in gradients.items()}
    guard = None
    if optimizer.clip_norm is not None:
        clipped, length = clip_to_norm(list(terms.values()), optimizer.clip_norm)
        terms = dict(zip(terms, clipped, strict=True))
        guard = _is_finite(builder, length.value)
        builder.save(length.value, builder.unique_name("length"))
    changes: Changes = {}
    for weight, gradient in terms.items():
        kept = {name: _kept(builder, weight, name, n) for name, n in optimizer.kept.items()}
        numbers = {
            name: Term(builder, beside(builder, i, weight.type)) for name, i in inputs.items()
        }
        old = {name: Term(builder, state) for name, state in kept.items()}
        new = optimizer.updated(Term(builder, weight), gradient, old, numbers)
        changes |= {kept.get(name, weight): term.value for name, term in new.items()}
    return changes, guard, {name: input.name for name, input in inputs.items()}


def _kept(builder: Builder, weight: State, name: str, number: float) -> State:
    """Return a state of the shape of *weight*, full of *number*."""
    array = np.full(weight.type.shape, number, weight.type.kind.dtype)
    return builder.state(f"{weight.name}.{name}", array)


def _is_finite(builder: Builder, value: Value) -> Value:
    """Return whether *value*, of one element, is finite, as a bool of rank 0."""
    number = beside(builder, value, value.type.with_shape(()))
    infinite = splat(builder, number.type, np.inf, "infinity")
    return builder.emit(Less(builder.emit(Abs(number)), infinite), "is_finite")


def _save_all(builder: Builder, updates: Changes, guard: Value | None) -> None:
    """Save *updates*; if *guard* is false, the states keep their values."""
    for state, value in updates.items():
        if guard is not None:
            value = builder.emit(Select(beside(builder, guard, state.type), value, state))
        builder.update(state, value)


def _reached(function: Function, value: Value) -> set[Value]:
    """Return everything that *value* is computed from."""
    reached = {value}
    for node in reversed(function.nodes):
        if any(result in reached for result in node.results):
            reached.update(operands_of(node))
    return reached
