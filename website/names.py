"""The reference of public names: which ones stand on which page, and under which heading.

A name that is in no group stands under the last heading of its page, so that none is forgotten.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name

import glow_nb
from website.markdown import description

Groups = Mapping[str, str]
"""Names, with spaces between them, under their heading."""

PYTHON: Groups = {
    "Compile and run": "compile Network CompiledNetwork DynamicNetwork GrowingNetwork"
    " StagedNetwork ModuleNetwork FiniteCheck load_compiled build",
    "Read and write": "load load_module load_program save_text export_onnx print_ir show_versions",
    "Graphs": "Builder Function Module Node Value Constant Placeholder State evaluate",
    "Passes": "optimize lower_for differentiate rewrite Rewriter register_pass Pipeline Step Repeat"
    " INFERENCE TRAINING INSTRUCTIONS",
    "Backends": "Backend Cpu Interpreter plans",
}
OBSERVERS: Groups = {"Observers": "PassRun each PrintDiff WriteIR Timing StepTime"}
QUANT: Groups = {
    "Ranges": "calibrate Ranges ValueRange Histogram Percentile",
    "Conversion": "quantize convert Conversion Encoding Kept Gains LayerGain Times",
    "Accuracy": "drift Drift ValueDrift equalize Equalization correct_biases BiasCorrection",
    "Weights alone": "convert_weights WeightConversion",
}
TRAIN: Groups = {
    "Trainer": "Trainer Batches Epoch History",
    "Losses": "Loss SoftmaxCrossEntropy SigmoidCrossEntropy MeanSquaredError Huber",
    "Optimizers": "Optimizer SGD Adam AdamW RMSprop Adagrad",
    "Schedules of the learning rate": "Schedule Constant Cosine OneCycle StepDecay WarmUp",
}
RUNTIME: Groups = {
    "Partitioning": "partition Partitioning Part DeviceDescription Link",
    "Running": "HostManager Tracer compile_part Deployable",
    "What a host tells": "NetworkInfo Request Health Statistics NetworkStatistics NetworkCounters"
    " Histogram DeviceStatistics TracedRequest",
}
TYPES: Groups = {
    "Times": "Profile KernelTime Timings MachineLimits MemoryLevel DotRate InstructionCost",
    "What a network is": "MemoryReport KernelList PrecisionReport LayerPrecision Table",
    "Runs": "BoundRun AwaitableFuture StateStore BadElement",
    "Plans": "PlanTable LayerPlans Weighed",
    "Types and sizes": "TensorType ElementKind Array SymbolicType Symbol Guard Specialized Counted",
    "Graphs": "Save Recipe",
}
BISECTION: Groups = {
    "Searches": "bisect bisect_finite bisect_noise",
    "What they find": "Bisection StepResult FiniteSearch NonFiniteValue NoiseSearch ValueNoise"
    " LEAST_DECIBELS",
}
EXTEND: Groups = {
    "Operators": "define_node UnaryElementwise BinaryElementwise require_kind lowers gradient"
    " no_gradient Backward Term sum_to check_gradients define_scalar_function Replacement",
    "Operators of ONNX files": "onnx_operator imports ImportContext OnnxNode",
    "Types": "TensorType ElementKind Array",
    "Kernels": "derive_instruction instruction_for kernel_for KernelSource SourceWriter share"
    " Target ChosenRow Cost",
    "Programs": "Program Arena Instruction Buffer Activation Weight View Bound StateBuffer Register"
    " operands_of read"
    " mutated substitute mark_lifetimes members_of scalar_expression",
    "Rules": "Rewrite rule Rules wildcards wildcard ANY number any_of named used_here",
    "Schedulers and allocators": "Steps LiveRange ALIGNMENT aligned_bytes",
    "Cost models": "Plan Problem ConvolutionShape MatMulShape UnpackedProduct MatrixLayout"
    " ProductKinds Candidate Algorithm register_algorithm algorithm_of",
    "Backends": "Executable PlannedMemory KernelReport KernelTable KernelTraits",
}
MODULES: Mapping[str, Groups] = {
    "glow_nb": PYTHON,
    "glow_nb.extend": EXTEND,
    "glow_nb.observers": OBSERVERS,
    "glow_nb.quant": QUANT,
    "glow_nb.train": TRAIN,
    "glow_nb.runtime": RUNTIME,
    "glow_nb.bisection": BISECTION,
    "glow_nb.types": TYPES,
}
"""Public modules in the order in which a name that several have is looked for."""


ALSO: Mapping[str, Groups] = {
    "glow_nb.extend": {
        "A new processor": "glow_nb.base.dot_instruction.DotInstruction"
        " glow_nb.base.dot_instruction.register_dot glow_nb.simd.multiply_adds.emits"
        " glow_nb.simd.convert.convert glow_nb.simd.lanes.Lanes"
        " glow_nb.kernels.machine.machine.Machine glow_nb.kernels.machine.machine.Number"
        " glow_nb.kernels.machine.fact.Fact"
        " glow_nb.backends.cpu.backend.CpuBackend",
    },
    "glow_nb.runtime": {
        "Devices": "glow_nb.runtime.devices.open_device.open_device"
        " glow_nb.runtime.devices.device.Device",
        "Simulation": "glow_nb.runtime.planning.simulate.simulate"
        " glow_nb.runtime.planning.simulate.Simulation"
        " glow_nb.runtime.planning.simulate.Load glow_nb.runtime.planning.simulate.Machine"
        " glow_nb.runtime.planning.simulate.Outage",
    },
}
"""Names of other modules that pages use, by the public module on whose page they stand."""

HIDDEN = (
    *("border", "compile_again", "course", "direct_run", "for_a_run", "for_reading", "general"),
    *("of_one_program", "opened", "programs", "rebuilding", "take_programs"),
)
"""Members of public classes that only other modules of the package call: they have no entry."""


def public_names(module: str) -> list[str]:
    """Return the public names of *module*, which defines or offers them."""
    loaded = importlib.import_module(module)
    if module == "glow_nb.runtime":  # whose names come when they are asked for
        return sorted(loaded._MODULES)
    if hasattr(loaded, "__all__"):
        return sorted(loaded.__all__)
    if module in ("glow_nb.extend", "glow_nb.types"):  # which have nothing of their own
        return dir(loaded)
    return sorted(n for names in MODULES[module].values() for n in names.split())


def objects_of(module: str) -> dict[str, object]:
    """Return the objects that *module* makes public, by their whole names."""
    loaded = importlib.import_module(module)
    return {f"{module}.{name}": getattr(loaded, name) for name in public_names(module)}


def reference_of(module: str) -> str:
    """Return the reference of *module* as directives of mkdocstrings under headings."""
    introduction = description(importlib.import_module(module))
    return "\n".join([introduction, "", *_lines(module)])


def _lines(module: str) -> Iterator[str]:
    elsewhere = _documented_before(module)
    left = [name for name in public_names(module) if not _is_error(module, name)]
    groups = {**{title: names.split() for title, names in MODULES[module].items()}}
    grouped = {name for names in groups.values() for name in names}
    groups["Other names"] = [name for name in left if name not in grouped]
    for title, names in groups.items():
        present = [name for name in names if name in left]
        if present:
            yield from (f"## {title}", "")
        for name in present:
            yield from _entry(f"{module}.{name}", elsewhere.get(id(_object(module, name))))
    for title, others in ALSO.get(module, {}).items():
        yield from (f"## {title}", "")
        for name in others.split():
            yield from _entry(name, None)


def _entry(name: str, elsewhere: str | None) -> Iterator[str]:
    if elsewhere is None:
        yield f"::: {name}"
        found = resolve_name(name)
        if isinstance(found, type):
            members = inherited_members(found)
            yield from ("    options:", f"      inherited_members: [{', '.join(members)}]")
            yield f'      filters: ["!^_", "!^({"|".join(HIDDEN)})$"]'
        yield ""
    else:
        yield from (f"### `{name}` {{ #{name} }}", "", f"It is [`{elsewhere}`][{elsewhere}].", "")


def inherited_members(found: type) -> list[str]:
    """Return the public members of a class that come from bases without an entry of their own."""
    ours = [base for base in found.__mro__[1:] if base.__module__.startswith("glow_nb.")]
    shown = [base for base in ours if id(base) in _documented()]
    names = {name for base in ours if base not in shown for name in vars(base)}
    names -= {*vars(found), *(name for base in shown for name in dir(base))}
    return sorted(name for name in names if not name.startswith("_") and name not in HIDDEN)


@cache
def _documented() -> frozenset[int]:
    """Return the identities of all objects that have an entry."""
    return frozenset(id(value) for module in MODULES for value in objects_of(module).values())


def _object(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def _is_error(module: str, name: str) -> bool:
    found = _object(module, name)
    return isinstance(found, type) and issubclass(found, glow_nb.GlowError | glow_nb.GlowWarning)


def _documented_before(module: str) -> dict[int, str]:
    """Return the whole names of objects that the modules before *module* document."""
    found: dict[int, str] = {}
    for other in list(MODULES)[: list(MODULES).index(module)]:
        for name, value in objects_of(other).items():
            found.setdefault(id(value), name)
    return found
