"""Arguments of the wrong kind, or that mean nothing, get one clear error each."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.backends import BACKENDS, Backend, BackendLike, BackendOptions, backend_named
from glow_nb.backends.backend import Executable
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.interpreter import Interpreter
from glow_nb.backends.options import option
from glow_nb.base.arguments import MOST_THREADS, as_shapes, number
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.bisection import bisect
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.llir.allocate import LiveRange, place
from glow_nb.llir.program import Program
from glow_nb.observers import Timing
from glow_nb.quant.methods import METHODS, MethodName
from glow_nb.quant.schemas import SCHEMAS, SchemaName
from glow_nb.runtime.planning.timing import VALUES, Objective

TWO = np.array([1, 2])


def relu() -> Function:
    b = Builder()
    b.save(b.emit(ops.Relu(b.input("x", "float32<2 x 3>"))), "y")
    return b.function()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("threads", 0, "threads=0: give a whole number from 1 to 1024"),
        ("threads", MOST_THREADS + 1, "threads=1025: give a whole number from 1 to 1024"),
        ("threads", 10**30, "from 1 to 1024"),
        ("threads", np.ones(1, int), "threads=a ndarray"),
        ("threads", True, "threads=True"),
        ("backend", Interpreter, "backend=<class .*: give the name of one, its options"),
        ("backend", glow_nb.Cpu, "backend=<class .*Cpu'>: give the name of one, its options"),
        ("backend", "gpu", "unknown backend 'gpu'; use one of cpu, interpreter"),
        ("winograd", TWO, "winograd=a ndarray"),
        ("winograd", ["auto"], "winograd="),
        ("tune", 1, "tune=1: give True or False"),
        ("shapes", [("batch", 8)], "shapes=.*: give a dict"),
        ("shapes", TWO, "shapes=a ndarray"),
        ("shapes", {1: 2}, "shapes={1: ...}: the names must be text"),
        ("shapes", {"n": "8"}, "shapes={'n': '8'}: give a size of 0 or more"),
        ("shapes", {"n": 1.5}, "shapes={'n': 1.5}: give a size"),
        ("shapes", {"n": True}, "shapes={'n': True}: give a size"),
        ("shapes", {"n": None}, "shapes={'n': None}: give a size"),
        ("shapes", {"n": bytearray(b"ab")}, "shapes={'n': bytearray.*: give a size"),
        ("shapes", {"n": np.array(1.5)}, "shapes={'n': 1.5}: give a size"),
        ("shapes", {"n": np.array([[2]])}, "shapes={'n': ..2..}: give a size"),
        ("shapes", {"n": (2, -1)}, "shapes={'n': .2, -1.}: give a size"),
        ("shapes", {"n": 8}, "there are no sizes to bind"),
        ("constants", TWO, "constants=a ndarray"),
        ("constants", {1: 2}, "constants={1: ...}: the names must be text"),
        (
            "constants",
            {"x": [[1], [2, 3]]},
            "constants={'x': ...}: a list that is no array: ValueError",
        ),
        ("pipeline", "fold_constants", "^pipeline='fold_constants': give a tuple"),
        ("pipeline", (3,), "^pipeline: entry 3: give a tuple"),
        ("pipeline", (glow_nb.Step(None),), "pipeline: entry Step"),  # type: ignore[arg-type]
        ("pipeline", (glow_nb.Step("lower", 3),), "pipeline: entry Step"),  # type: ignore[arg-type]
        ("pipeline", (glow_nb.Repeat((), limit="x"),), "pipeline: entry Repeat"),  # type: ignore[arg-type]
        ("pipeline", ("peephole",), "give it in program_pipeline=, which takes instruction passes"),
        ("program_pipeline", 7, "^program_pipeline=7: give a tuple of names of instruction passes"),
        ("program_pipeline", (len, 7), "^program_pipeline: entry 7: give a tuple"),
        (
            "program_pipeline",
            ("fold_constants",),
            "^program_pipeline: 'fold_constants' is no instruction pass; give it in pipeline=",
        ),
        ("observer", {}, "observer={}: give a function"),
        ("observer", TWO, "observer=a ndarray"),
        (
            "observer",
            Timing,
            "observer=Timing: this is a class; give an instance of it: Timing",
        ),
    ],
)
def test_a_wrong_option_of_compile_is_refused(option: str, value: object, message: str) -> None:
    options: dict[str, Any] = {"backend": "interpreter", option: value}
    with pytest.raises(OptionError, match=message):
        glow_nb.compile(relu(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"winograd": "sometimes"},
            r"winograd='sometimes': give one of \('auto', 'guarded', 'off'",
        ),
        ({"winograd": TWO}, "winograd=a ndarray.*: give one of"),
        ({"tune": 1}, "tune=1: give True or False"),
        *(
            ({"constant_growth": wrong}, "constant_growth=.*: give a number of 1 or more")
            for wrong in (0.99, -math.inf, math.nan, "2", True, None, TWO)
        ),
    ],
)
def test_options_of_a_backend_are_checked_when_they_are_made(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        glow_nb.Cpu(**options)


def test_an_option_is_given_in_one_place() -> None:
    for short in ({"winograd": "auto"}, {"tune": False}):
        with pytest.raises(
            OptionError, match=r"has options of its own; give (winograd|tune) there"
        ):
            glow_nb.compile(relu(), backend=glow_nb.Cpu(winograd="off"), **short)
    with pytest.raises(OptionError, match="winograd='off': backend=Cpu"):
        bisect(relu(), np.zeros((2, 3), np.float32), backend=glow_nb.Cpu(), winograd="off")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("winograd", "guarded"), ("constant_growth", 1), ("tune", True), ("debug", True)),
        *(("plan", {"conv1": "direct"}), ("plan", len), ("cost_model", len)),
        *(("plan", np.zeros(2)), ("cost_model", np.zeros(2))),
    ],
)
def test_a_backend_refuses_the_options_of_others(option: str, value: object) -> None:
    given: dict[str, Any] = {option: value}
    for backend in ("interpreter", glow_nb.Interpreter()):
        with pytest.raises(OptionError, match=f"^{option}=.*: it is an option of backend 'cpu'"):
            glow_nb.compile(relu(), backend=backend, **given)
    with pytest.raises(OptionError, match=f"^{option}=.*backend='interpreter' does not have"):
        bisect(relu(), np.zeros((2, 3), np.float32), backend="interpreter", **given)


def test_a_default_or_off_says_nothing_to_a_backend_without_the_option() -> None:
    defaults: dict[str, Any] = {field.name: field.default for field in fields(glow_nb.Cpu)}
    for given in (defaults, {"winograd": "off", "strassen": "off"}):
        net = glow_nb.compile(relu(), backend="interpreter", **given)
        assert net.run(-np.ones((2, 3), np.float32))["y"].max() == 0


def test_options_of_a_backend_are_printed() -> None:
    chosen = "winograd='auto', strassen='auto', constant_growth=2.0, tune=True, debug=False"
    said = f"precision='float32', keep=(), {chosen}"
    assert repr(glow_nb.Cpu(tune=True)) == f"Cpu({said}, plan=None, cost_model=None)"


@dataclass(frozen=True)
class Mine(BackendOptions):
    """The options of a user's backend."""

    name: ClassVar[str] = "mine"
    order: str = option("first", choices=("first", "last"), help="Which one comes first.")
    label: str = ""

    @override
    def make(self, *, threads: int) -> Backend:
        return Interpreter()


def test_a_user_may_have_options_for_a_backend_of_their_own() -> None:
    net = glow_nb.compile(relu(), backend=Mine(order="last", label="x"))
    assert net.run(-np.ones((2, 3), np.float32))["y"].max() == 0
    with pytest.raises(OptionError, match=r"order='second': give one of \('first', 'last'\)"):
        Mine(order="second")
    with pytest.raises(OptionError, match=r"tune=True: backend=Mine\(.*has options of its own"):
        glow_nb.compile(relu(), backend=Mine(), tune=True)


def test_the_name_means_the_options_by_default() -> None:
    for backend in ("cpu", glow_nb.Cpu()):
        made = backend_named(backend, threads=3)
        assert isinstance(made, CpuBackend)
        assert (made.options, made.threads) == (glow_nb.Cpu(), 3)
    short = backend_named("cpu", options={"winograd": "guarded", "tune": True})
    assert isinstance(short, CpuBackend)
    assert short.options == glow_nb.Cpu(winograd="guarded", tune=True)


@pytest.mark.parametrize("graph", ["", "a\0b", b"", Path("a\0.glow"), np.zeros(3)])
def test_what_names_no_model_is_refused(graph: Any) -> None:
    with pytest.raises(glow_nb.GlowError):
        glow_nb.load(graph)


def test_numpy_numbers_will_do() -> None:
    net = glow_nb.compile(relu(), backend="interpreter", threads=np.int64(1))  # type: ignore[arg-type]
    assert net.threads == 1


@pytest.mark.parametrize("feeds", [[[1, 2, 3], [4, 5]], {"x": [[1], [2, 3]]}])
def test_ragged_lists_are_no_input(feeds: Any) -> None:
    net = glow_nb.compile(relu(), backend="interpreter")
    with pytest.raises(FeedError, match="input 'x': a (list|dict) that is no array: ValueError"):
        net.run(feeds)


@pytest.mark.parametrize("path", [None, 3, b"p.png", "", "a\0b"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    net = glow_nb.compile(relu(), backend="interpreter")
    with pytest.raises(OptionError, match="is no path; give that of a file"):
        net.memory.plot(path)


@pytest.mark.parametrize(("threads", "backend"), [(0, "cpu"), ("2", "cpu"), (1, 3)])
def test_bisect_refuses_what_compile_refuses(threads: Any, backend: Any) -> None:
    with pytest.raises(OptionError, match=r"(threads|backend)=.*: give"):
        bisect(relu(), np.zeros((2, 3), np.float32), threads=threads, backend=backend)


@pytest.mark.parametrize(
    "feeds",
    [
        {},
        {"x": np.zeros(3, np.float32)},
        {"x": np.zeros((2, 3))},
        {"x": [[1, 2, 3], [4, 5, 6]]},
        {"x": np.zeros((2, 3), np.float32), "y": np.zeros(3, np.float32)},
        {"x": None},
        5,
    ],
)
def test_evaluate_refuses_what_a_network_refuses(feeds: Any) -> None:
    network = glow_nb.compile(relu(), backend="interpreter")
    with pytest.raises(FeedError) as refused:
        network.run(feeds)
    with pytest.raises(FeedError, match=re.escape(str(refused.value))):
        glow_nb.evaluate(relu(), feeds)


@pytest.mark.parametrize(
    "use",
    [
        lambda value: glow_nb.optimize(value),
        lambda value: glow_nb.evaluate(value, {}),
        lambda value: glow_nb.rewrite(value, lambda node, rewriter: None),
        lambda value: glow_nb.differentiate(value, ["x"]),
    ],
)
def test_what_is_no_function_is_refused(use: Callable[[Any], object]) -> None:
    with pytest.raises(glow_nb.GlowError, match=r"'model\.onnx' is no Function; glow_nb"):
        use("model.onnx")
    with pytest.raises(glow_nb.GlowError, match=r"^a ndarray is no Function; glow_nb"):
        use(np.zeros(2))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda b: b.emit(None), "None is a NoneType, not a node"),
        (lambda b: b.save(5, "y"), "output 'y' of function 'main': 5 is a int, not a value"),
        (lambda b: b.input(5, "float32<2>"), "the name 5 is a int; give text"),
        (lambda b: b.input("x", 5), "5 is neither a TensorType nor text; give one such as"),
    ],
)
def test_what_a_builder_cannot_take_is_refused(use: Callable[[Any], object], message: str) -> None:
    with pytest.raises(glow_nb.GlowError, match=message):
        use(glow_nb.Builder())


def test_a_path_that_has_no_bytes_is_refused() -> None:
    with pytest.raises(OptionError, match="is no path; give that of a file"):
        glow_nb.load("\ud800.onnx")


@pytest.mark.parametrize("alignment", [0, -64, 1.5, "64"])
def test_an_alignment_of_nothing_is_refused(alignment: Any) -> None:
    with pytest.raises(glow_nb.GlowError, match="give a number of bytes of at least 1"):
        place([LiveRange(0, 1, 5)], alignment=alignment)


def test_sizes_may_be_arrays() -> None:
    shapes = {"one": np.array(8), "several": np.array([2, 3])}
    assert as_shapes(shapes) == {"one": 8, "several": (2, 3)}


def test_a_backend_without_a_part_is_told_which() -> None:
    class Part:
        name = "part"

        def compile(self, program: Program, *, threads: int) -> Executable:
            raise NotImplementedError

    with pytest.raises(
        OptionError, match="it has no .*, graph_pipeline, .*kernels, .*inherit from"
    ):
        glow_nb.compile(relu(), backend=Part())  # type: ignore[arg-type]


def choices_of(annotation: object) -> set[object]:
    """Return the values of all Literals in *annotation*."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return {value for part in get_args(annotation) for value in choices_of(part)}


def test_editors_know_what_an_option_may_be() -> None:
    hints = get_type_hints(glow_nb.Cpu)
    for known in dataclasses.fields(glow_nb.Cpu):
        assert choices_of(hints[known.name]) == set(known.metadata.get("choices", ()))
    assert choices_of(BackendLike) == set(BACKENDS)
    assert set(get_args(SchemaName)) == set(SCHEMAS)
    assert set(get_args(MethodName)) == set(METHODS)
    assert set(get_args(Objective)) == set(VALUES)


@pytest.mark.parametrize(
    "value", [TWO, [TWO], {"x": TWO}, glow_nb.Builder("b"), object(), list(range(50))]
)
def test_no_message_holds_the_text_of_an_array_or_of_an_object(value: object) -> None:
    for name in ("threads", "shapes", "backend", "pipeline", "winograd", "state", "max_variants"):
        with pytest.raises(OptionError) as caught:
            glow_nb.compile(relu(), **{name: value})  # type: ignore[arg-type]
        assert "array(" not in str(caught.value)
        assert " at 0x" not in str(caught.value)


def test_a_whole_number_that_no_float_can_be_is_infinite() -> None:
    assert number("growth", 10**400, 0.0) == math.inf
    with pytest.raises(OptionError, match="^growth=-1000.*: give a number of 0 or more"):
        number("growth", -(10**400), 0.0)
