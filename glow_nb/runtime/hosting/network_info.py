"""What a host tells of a network: what it takes and gives, and where it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glow_nb.base.types import SymbolicType, TensorType
from glow_nb.runtime.hosting.batching import open_types, shown_type
from glow_nb.runtime.hosting.served_network import ServedNetwork


@dataclass(frozen=True)
class NetworkInfo:
    """The description of a network on a host.

    Attributes:
        name: Its name.
        inputs: Name and type of each input, in order. With batches the leading size is open;
            others may be.
        outputs: Name and type of each output, in order, likewise.
        duplicates: The number of complete copies on devices that take runs now.
        ready: Whether requests can be answered: not if there is no copy.
        batch_sizes: The sizes that requests run together in; ``(1,)`` if each runs alone.
        places: For each part of the network, the devices that it is loaded on.
    """

    name: str
    inputs: Mapping[str, TensorType | SymbolicType]
    outputs: Mapping[str, TensorType | SymbolicType]
    duplicates: int
    ready: bool
    batch_sizes: tuple[int, ...]
    places: Mapping[str, tuple[str, ...]]


def info_of(network: ServedNetwork) -> NetworkInfo:
    """Return what *network* is now."""
    flow = network.flows[-1]
    is_batched = network.max_rows > 1
    copies = min(flow.copies for flow in network.flows)
    return NetworkInfo(
        name=network.name,
        inputs=open_types(flow.inputs) if is_batched else _shown(flow.inputs),
        outputs=open_types(flow.outputs) if is_batched else _shown(flow.visible_outputs),
        duplicates=copies,
        ready=copies > 0 and not network.lost and not network.leaving,
        batch_sizes=tuple(flow.rows for flow in network.flows),
        places={s.deployable.name: tuple(c.device.name for c in s.copies) for s in flow.parts},
    )


def _shown(types: Mapping[str, TensorType]) -> dict[str, TensorType | SymbolicType]:
    return {name: shown_type(type) for name, type in types.items()}
