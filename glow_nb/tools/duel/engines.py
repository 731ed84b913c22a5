"""The engines that a model can be run in, and how each is opened."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from glow_nb.base.errors import OptionError
from glow_nb.base.extras import EXTRAS
from glow_nb.base.precision import FULL
from glow_nb.base.types import Array

Arrays = Mapping[str, Array]
Runner = Callable[[Arrays], Sequence[Array]]

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})

OURS = "glow_nb"
PEERS = EXTRAS["bench"]
ENGINES = (OURS, *PEERS)
"""Names of the engines, which are those of their Python packages."""

BFLOAT16 = "bfloat16"
OUT_OF_THE_BOX = "default"
PRECISIONS = (FULL, BFLOAT16, OUT_OF_THE_BOX)
"""What engines can be asked to compute in. "default" asks for nothing: each is as it comes out of
the box, and OpenVINO chooses by the processor."""

HINTS = {FULL: "f32", BFLOAT16: "bf16"}
"""What OpenVINO calls them."""


@dataclass(frozen=True)
class OpenedEngine:
    """An engine that has a model: a function of the inputs, whose outputs are in the model's order.

    Attributes:
        run: The function itself.
        computes: The kind that it says it computes in, which need not be the one asked for.
    """

    run: Runner
    computes: str

    def __call__(self, feeds: Arrays) -> Sequence[Array]:
        """Return the outputs for *feeds*."""
        return self.run(feeds)


def is_installed(engine: str) -> bool:
    """Return whether the package of *engine* can be imported."""
    return importlib.util.find_spec(engine) is not None


def require_installed(engines: Sequence[str]) -> None:
    """Raise OptionError if a package of *engines* is not installed; names all of these."""
    missing = [engine for engine in engines if not is_installed(engine)]
    if missing:
        raise OptionError(
            f"{', '.join(missing)}: not installed; pip install {' '.join(missing)}, or leave it out"
        )


def open_engine(
    engine: str,
    path: str,
    threads: int,
    options: Mapping[str, Any] = NO_OPTIONS,
    *,
    precision: str = FULL,
    alone: bool = False,
) -> OpenedEngine:
    """Return a function that runs the ONNX model at *path* in *engine* on *threads* cores.

    It returns the outputs in the order of the model. The engine is asked to compute in *precision*,
    one of PRECISIONS; ONNX Runtime computes in float32 whatever it is asked for. glow_nb compiles
    the model with these *options*. An engine that is *alone* in its process is as it is by itself;
    others have no thread that takes a core for long when a run has ended.

    Raises:
        OptionError: There is no such engine.
        ImportError: Its package is not installed.
    """
    match engine:
        case "glow_nb":
            return _open_glow_nb(path, threads, options, precision)
        case "onnxruntime":
            return OpenedEngine(open_onnxruntime(path, threads, alone=alone), FULL)
        case "openvino":
            return _open_openvino(path, threads, precision)
        case _:
            raise OptionError(f"unknown engine {engine!r}; use one of {', '.join(ENGINES)}")


def _open_glow_nb(
    path: str, threads: int, options: Mapping[str, Any], precision: str
) -> OpenedEngine:
    import glow_nb

    asked = FULL if precision == OUT_OF_THE_BOX else precision
    given = options if asked == FULL else {**options, "precision": asked}
    net = glow_nb.compile(path, threads=threads, **given)
    return OpenedEngine(lambda feeds: list(net.run(feeds).values()), asked)


def open_onnxruntime(model: str | bytes, threads: int, *, alone: bool = False) -> Runner:
    """Return a function that runs *model*, a path or the bytes of one, in ONNX Runtime.

    Its threads wait for the next run in a loop that takes their cores for some 40 ms. If the
    session is not *alone* in its process, this ends with the run; in a run they wait as ever.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    if not alone:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


def _open_openvino(path: str, threads: int, precision: str) -> OpenedEngine:
    """Open OpenVINO; no precision is set if it is to use its default."""
    import openvino

    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    if precision in HINTS:
        config["INFERENCE_PRECISION_HINT"] = HINTS[precision]
    compiled = openvino.Core().compile_model(path, "CPU", config)
    request = compiled.create_infer_request()

    def run(feeds: Arrays) -> list[Array]:
        request.infer(feeds)
        return [request.get_output_tensor(i).data.copy() for i in range(len(compiled.outputs))]

    chosen = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    names = {hint: name for name, hint in HINTS.items()}
    return OpenedEngine(run, names.get(chosen, chosen))
