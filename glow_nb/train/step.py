"""One training step as a function: the loss, its gradients, and the new weights.

The constants that are trained become states of the same names; what an optimizer keeps for the
weight ``w`` is a state ``w.momentum``, and so on. All states keep their values where the loss is
not finite, so that a step that fails changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from glow_nb.base.arguments import described
from glow_nb.base.errors import FeedError, OptionError, VerifyError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.schema import closest, listed, operands_of
from glow_nb.base.steps import Entries
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import emit_gradients
from glow_nb.hlir.graph import Constant, Function, State, Value, producer_of
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.passes import GRAPH_PASSES
from glow_nb.hlir.rewrite import substitute
from glow_nb.hlir.save import Save, is_update
from glow_nb.train.losses import LossFunction
from glow_nb.train.optimizers import Optimizer
from glow_nb.train.sums import beside
from glow_nb.train.update import (
    GradientCheck,
    Update,
    emit_update,
    is_finite,
    kept_state,
    number_kind,
    save_all,
)

LOSS, PREDICTION, TARGET = "loss", "prediction", "target"


@dataclass(frozen=True)
class StepFunctions:
    """The functions of a step, over the same states.

    Attributes:
        forward: The loss alone, in terms of the model's nodes: what a fault is looked for in.
        train: The whole step; of one that is made in parts, the gradients of a part.
        apply: The optimizer's update, if the step is made in parts; else None.
        gradients: The states in which the gradients of the parts are summed up; else none.
        target: The name of the input for the targets.
        loss: The name of the output.
        numbers: The name of the input for each number that an optimizer feeds.
        share: For a step that is made in parts, the name of the input for the weight of a part.
        number_kind: The kind of these inputs.
        check: The test whether the gradients are finite; None for no test.
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
    check: GradientCheck | None

    @property
    def state(self) -> tuple[State, ...]:
        """The states of all functions."""
        return (*self.train.state, *(() if self.apply is None else self.apply.state))


def with_states(function: Function, states: Mapping[Constant, State], name: str) -> Function:
    """Return *function*, called *name*, with states instead of constants."""
    mapping: dict[Value, Value] = dict(states.items())
    return dataclasses.replace(substitute(function, mapping), name=name)


def saved_as(function: Function, output: str | None) -> Save:
    """Return the node that saves the *output* of *function*, by default its only one."""
    names = [placeholder.name for placeholder in function.outputs]
    if not isinstance(output, str | None):
        raise OptionError(f"output={described(output)}: give the name of an output of {names}")
    if output is None and len(names) != 1:
        raise OptionError(f"the network has the outputs {names}; say by output= which is trained")
    wanted = output or names[0]
    for node in function.nodes:
        if isinstance(node, Save) and node.output.name == wanted:
            return node
    raise OptionError(f"output={wanted!r}{closest(wanted, names)}: the network has {listed(names)}")


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
            f"loss {name_of(loss)!r} returned {described(value)}; it must return "
            "a float of one element"
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
    counter: State,
    *,
    taken: Collection[str],
    parts: int,
    checks: bool,
    passes: Entries,
) -> StepFunctions:
    """Return what a step is made of, *forward* having the output *loss*.

    Args:
        forward: The model in its training form, with the loss as its only output.
        loss: The name of the output.
        target: The name of the input of targets.
        weights: The trained weights, if the loss depends on them.
        optimizer: The function from gradients to new weights.
        counter: The state that counts the steps.
        taken: Names of other states, which those that are made here do not get.
        parts: The number of batches of a step; their gradients are added, each times its share,
            which is fed.
        checks: Whether a gradient that is not finite leaves everything as it was.
        passes: The passes over the model before its gradients are emitted.

    Raises:
        GradientError: As :func:`glow_nb.differentiate`.
    """
    prepared = GRAPH_PASSES.run(forward, passes)
    taken = {counter.name, *taken}
    builder = Backward.continuing(prepared, taken)
    builder.name = "train"
    value = saved_as(prepared, loss).input
    reached = _reached(prepared, value)
    trained = [weight for weight in weights if weight in reached] or list(weights)
    found = emit_gradients(builder, value, trained)
    gradients = {weight: found[weight] for weight in trained}
    changes = _take_updates(builder)
    guard = is_finite(builder, value)
    kind = number_kind(gradients)
    if parts == 1:
        update = emit_update(builder, optimizer, gradients, counter, checks=checks)
        save_all(builder, {**changes, **update.changes}, [guard, *update.guards])
        train, numbers, check = builder.function(), update.numbers, update.check
        return StepFunctions(forward, train, None, (), target, loss, numbers, None, kind, check)
    share = builder.input("share", TensorType(kind, ()))
    sums = {weight: kept_state(builder, weight, "gradient", 0.0) for weight in trained}
    for weight, state in sums.items():
        factor = Term(builder, beside(builder, share, state.type))
        gradient = Term(builder, as_kind(builder, gradients[weight], state.type.kind))
        changes[state] = (Term(builder, state) + gradient * factor).value
    save_all(builder, changes, [guard])
    train = builder.function()
    apply, update = _apply_function(optimizer, sums, counter, taken, checks=checks)
    gathered, numbers, check = tuple(sums.values()), update.numbers, update.check
    return StepFunctions(
        forward, train, apply, gathered, target, loss, numbers, share.name, kind, check
    )


def _take_updates(builder: Builder) -> dict[State, Value]:
    """Return what the states get, and take it out of *builder*."""
    updates: dict[State, Value] = {}
    for node in filter(is_update, builder.nodes):
        assert isinstance(node.output, State)
        updates[node.output] = node.input
    builder.nodes = [node for node in builder.nodes if not is_update(node)]
    return updates


def _apply_function(
    optimizer: Optimizer,
    sums: Mapping[State, State],
    counter: State,
    taken: Iterable[str],
    *,
    checks: bool,
) -> tuple[Function, Update]:
    """Return what gives the weights new values by their *sums* of gradients and empties these."""
    own = {state.name for state in (*sums, *sums.values())}
    builder = Builder("apply", own.union(taken))
    update = emit_update(builder, optimizer, sums, counter, checks=checks)
    save_all(builder, update.changes, update.guards)
    for state in sums.values():
        builder.update(state, (Term(builder, state) * 0.0).value)
    return builder.function(), update


def _reached(function: Function, value: Value) -> set[Value]:
    """Return everything that *value* is computed from."""
    reached = {value}
    for node in reversed(function.nodes):
        if any(result in reached for result in node.results):
            reached.update(operands_of(node))
    return reached
