"""Models as the protocol describes them: metadata, configuration, statistics."""

from __future__ import annotations

from typing import Any

from glow_nb.base.types import SymbolicType, TensorType
from glow_nb.base.version import __version__
from glow_nb.runtime.hosting.statistics import Histogram, NetworkStatistics
from glow_nb.runtime.serve.datatypes import NAMES
from glow_nb.runtime.serve.model_server import ServedModel

Type = TensorType | SymbolicType
EXTENSIONS = ("binary_tensor_data", "model_repository", "model_configuration", "statistics")
PLATFORM = "glow_nb"


def server_metadata() -> dict[str, Any]:
    """Return what the server is."""
    return {"name": "glow_nb", "version": __version__, "extensions": EXTENSIONS}


def model_metadata(model: ServedModel, versions: list[str]) -> dict[str, Any]:
    """Return what *model*, which has *versions*, takes and gives; open sizes are -1."""
    return {
        "name": model.file.name,
        "versions": versions,
        "platform": PLATFORM,
        "inputs": [_tensor(name, type) for name, type in model.inputs.items()],
        "outputs": [_tensor(name, type) for name, type in model.outputs.items()],
    }


def model_configuration(model: ServedModel) -> dict[str, Any]:
    """Return how *model* is served, in the words of Triton's model configuration."""
    is_batched = model.max_rows > 0
    return {
        "name": model.file.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": {"all": {}},
        "max_batch_size": model.max_rows,
        "input": [_configured(*item, is_batched) for item in model.inputs.items()],
        "output": [_configured(*item, is_batched) for item in model.outputs.items()],
    }


def model_statistics(model: ServedModel, statistics: NetworkStatistics) -> dict[str, Any]:
    """Return what happened to the requests to *model*, in the words of the extension."""
    counters = statistics.counters
    return {
        "name": model.file.name,
        "version": model.file.version,
        "inference_count": counters.answered,
        "execution_count": counters.batches.total(),
        "inference_stats": {
            "success": _durations(counters.latency),
            "fail": {"count": counters.failed, "ns": 0},
            "queue": _durations(counters.waiting),
        },
        "batch_stats": [
            {"batch_size": size, "compute_infer": {"count": count, "ns": 0}}
            for size, count in sorted(counters.batches.items())
        ],
    }


def _tensor(name: str, type: Type) -> dict[str, Any]:
    return {"name": name, "datatype": _datatype(type), "shape": _shape(type)}


def _configured(name: str, type: Type, is_batched: bool) -> dict[str, Any]:
    return {
        "name": name,
        "data_type": f"TYPE_{_datatype(type)}",
        "dims": _shape(type)[1:] if is_batched else _shape(type),
    }


def _datatype(type: Type) -> str:
    assert type.kind is not None  # types of a compiled network
    return NAMES[type.kind]


def _shape(type: Type) -> list[int]:
    assert type.shape is not None  # types of a compiled network
    return [-1 if isinstance(size, str) else size for size in type.shape]


def _durations(histogram: Histogram) -> dict[str, int]:
    return {"count": histogram.count, "ns": round(1e9 * histogram.total)}
