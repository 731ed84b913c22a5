"""Arguments that other runtimes take, and their equivalents here."""

from __future__ import annotations

from collections.abc import Collection

from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest

_PROCESSOR = "networks run on this processor; leave it out, or choose a backend by backend="
_KINDS = (
    "the kinds of numbers are the model's; leave it out, and see glow_nb.quant for integers in "
    "their place"
)
_SIZES = 'sizes are given by shapes={"batch": 8} or shapes={"x": (8, 3, 224, 224)}'
_STEPS = "the passes over the graph are chosen by pipeline="

ELSEWHERE = {
    "providers provider provider_options device devices device_id target use_gpu cuda": _PROCESSOR,
    "num_threads n_threads n_jobs workers cores intra_op_num_threads inter_op_num_threads": (
        "the cores of a run are chosen by threads="
    ),
    "shape input_shape input_shapes batch_size batch dynamic_shapes dynamic_axes dynamic": _SIZES,
    "dtype precision fp16 half bf16 int8": _KINDS,
    "passes opt_level optimize optimization_level graph_optimization_level mode": _STEPS,
    "sess_options session_options options config params": (
        "options are arguments of their own, such as threads= and backend=glow_nb.Cpu(tune=True)"
    ),
    "model path model_path file filename onnx_model": (
        "the model is the first argument, and has no keyword: glow_nb.compile('model.onnx')"
    ),
    "fullgraph inputs example_inputs args": "leave it out: the model determines it",
    "verbose log_level": (
        "leave it out; observer= is called after every step, and the logger glow_nb logs progress"
    ),
    "cache cache_dir": "kernels are kept in the folder GLOW_NB_CACHE_DIR",
}
"""What stands for arguments of other runtimes, each line for several names."""

_ADVICE = {name: advice for names, advice in ELSEWHERE.items() for name in names.split()}


def refuse_arguments(function: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise OptionError for the first of the *given* arguments, which *function* does not have."""
    for name in given:
        advice = f"; {_ADVICE[name]}" if name in _ADVICE else closest(name, known)
        advice = advice or f"; it has {', '.join(known)}"
        raise OptionError(f"{function}() has no argument {name!r}{advice}")
