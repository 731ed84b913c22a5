"""The graph passes, one file each, named like the pass; importing this registers them all."""

from glow_nb.hlir.optimize.eliminate_common_nodes import eliminate_common_nodes
from glow_nb.hlir.optimize.eliminate_dead_nodes import eliminate_dead_nodes
from glow_nb.hlir.optimize.eliminate_noops import eliminate_noops
from glow_nb.hlir.optimize.fold_batch_normalization import fold_batch_normalization
from glow_nb.hlir.optimize.fold_constants import fold_constants
from glow_nb.hlir.optimize.sink_transposes import sink_transposes
from glow_nb.hlir.passes import GRAPH_PASSES

__all__ = [
    "GRAPH_PASSES",
    "eliminate_common_nodes",
    "eliminate_dead_nodes",
    "eliminate_noops",
    "fold_batch_normalization",
    "fold_constants",
    "sink_transposes",
]
