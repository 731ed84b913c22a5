"""Passes that are left out of a compilation, those of the backend as well."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.errors import OptionError
from glow_nb.hlir.ops import MatMul, Relu
from glow_nb.passes import STEP_NAMES, PassRun, step_names

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def product() -> glow_nb.Function:
    builder = glow_nb.Builder("product")
    weights = builder.constant("w", np.arange(12, dtype=np.float32).reshape(3, 4))
    made = builder.emit(MatMul(builder.input("x", "float32<2 x 3>"), weights))
    builder.save(builder.emit(Relu(made)), "y")
    return builder.function()


def steps_of(backend: str, *without: str) -> tuple[set[str], glow_nb.Network]:
    ran: set[str] = set()

    def observe(run: PassRun, /) -> None:
        ran.add(run.name)

    net = glow_nb.compile(product(), backend=backend, threads=1, without=without, observer=observe)
    return ran, net


def test_pass_runs_nowhere_if_it_is_left_out() -> None:
    names = ("fold_constants", "stack_instructions", "eliminate_noops")
    assert steps_of("interpreter")[0] >= set(names)
    ran, net = steps_of("interpreter", *names)
    assert not ran & set(names)
    wanted = glow_nb.evaluate(product(), X)["y"]
    np.testing.assert_allclose(net.run(X)["y"], wanted, rtol=1e-6)


@pytest.mark.jit
def test_passes_of_the_backend_are_left_out_too() -> None:
    names = ("fold_constants", "split_reductions", "multiply_by_reciprocals")
    assert steps_of("cpu")[0] >= set(names)
    ran, net = steps_of("cpu", *names)
    assert not ran & set(names)
    wanted = glow_nb.evaluate(product(), X)["y"]
    np.testing.assert_allclose(net.run(X)["y"], wanted, rtol=1e-6)


def test_docstring_lists_the_passes_of_the_backend() -> None:
    own = set(step_names(backend_named("cpu").graph_pipeline)) - set(STEP_NAMES)
    assert own
    for name in own:
        assert f"``{name}``" in (glow_nb.compile.__doc__ or "")


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("fold_constants", "give a tuple of names"),
        (5, "give a tuple of names"),
        (("fold_constant",), "no pass 'fold_constant' would run; did you mean 'fold_constants'"),
        (("lower",), "'lower' is a step of the compiler, which always runs"),
        (("zzz",), "no pass 'zzz' would run; there run eliminate_dead_nodes"),
    ],
)
def test_what_is_no_pass_is_refused(without: object, message: str) -> None:
    with pytest.raises(OptionError, match=f"without.*{message}"):
        glow_nb.compile(product(), backend="interpreter", without=without)  # type: ignore[arg-type]
