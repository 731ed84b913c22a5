"""Which results may be made where a ``save`` puts them: in an output, or in the memory of a state.

A state holds its old value until its new one is written. So the node that makes the new value can
write it there if all others that read the old one come before; :mod:`glow_nb.hlir.schedule` sees to
that where it can, and IRGen makes use of it where it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from glow_nb.hlir.graph import Function, Node, Result, State, Value
from glow_nb.hlir.ops.insertion import InsertSlice
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.save import Save, is_update

Users = Mapping[Value, list[Node]]


def saved_alone(function: Function, users: Users) -> dict[Value, Save]:
    """Return the results that only a ``save`` reads, with it; reshapes between do no harm.

    An output that is an input as well keeps its old contents until the end of the run, so it does
    not take part.
    """
    found: dict[Value, Save] = {}
    for node in function.nodes:
        if not isinstance(node, Save) or node.output in function.inputs:
            continue
        value = node.input
        while isinstance(value, Reshape) and len(users[value]) == 1:
            value = value.input
        if isinstance(value, Node | Result) and len(users[value]) == 1:
            found[value] = node
    return found


def aliases_of(state: State, users: Users) -> set[Value]:
    """Return *state* and its reshapes, which are views of it."""
    found: set[Value] = {state}
    waiting: list[Value] = [state]
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if isinstance(user, Reshape) and user not in found:
                found.add(user)
                waiting.append(user)
    return found


def readers_of(state: State, users: Users) -> Iterator[Node]:
    """Yield the nodes that read *state* or a reshape of it; its own save does not."""
    for alias in aliases_of(state, users):
        for user in users.get(alias, ()):
            is_own_save = isinstance(user, Save) and user.output is state
            if not isinstance(user, Reshape) and not is_own_save:
                yield user


def is_read_at_the_end(state: State, users: Users) -> bool:
    """Return whether the old value of *state* becomes that of another: it is needed to the end."""
    return any(is_update(reader) for reader in readers_of(state, users))


def grown_in_place(function: Function) -> set[Node]:
    """Return the nodes that put rows into what is an input and an output, where it lies.

    The result is saved there, and what reads the old contents comes before.
    """
    users = function.users()
    number = {node: index for index, node in enumerate(function.nodes)}
    found: set[Node] = set()
    for node in function.nodes:
        if not isinstance(node, InsertSlice) or node.input not in function.inputs:
            continue
        saves = (user for user in users.get(node, ()) if isinstance(user, Save))
        readers = users[node.input]
        if any(save.output is node.input for save in saves) and all(
            number[reader] <= number[node] and not isinstance(reader, Reshape)
            for reader in readers
            if not (isinstance(reader, Save) and reader.output is node.input)
        ):
            found.add(node)
    return found
