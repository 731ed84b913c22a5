"""The graph passes, one file each, named like the pass; importing this registers them all."""

from glow_nb.hlir.optimize.eliminate_common_nodes import eliminate_common_nodes
from glow_nb.hlir.optimize.eliminate_dead_nodes import eliminate_dead_nodes
from glow_nb.hlir.optimize.eliminate_noops import eliminate_noops
from glow_nb.hlir.optimize.fold_batch_normalization import fold_batch_normalization
from glow_nb.hlir.optimize.fold_constants import fold_constants
from glow_nb.hlir.optimize.fold_pads import fold_pads
from glow_nb.hlir.optimize.fold_scales_into_next_convolution import (
    fold_scales_into_next_convolution,
)
from glow_nb.hlir.optimize.fold_scales_into_products import fold_scales_into_products
from glow_nb.hlir.optimize.gathers_to_slices import gathers_to_slices
from glow_nb.hlir.optimize.hoist_channel_gathers import hoist_channel_gathers
from glow_nb.hlir.optimize.hoist_reshapes import hoist_reshapes
from glow_nb.hlir.optimize.hoist_slices import hoist_slices
from glow_nb.hlir.optimize.merge_clips import merge_clips
from glow_nb.hlir.optimize.merge_concats import merge_concats
from glow_nb.hlir.optimize.merge_conversions import merge_conversions
from glow_nb.hlir.optimize.merge_products import merge_products
from glow_nb.hlir.optimize.merge_slices import merge_slices
from glow_nb.hlir.optimize.raise_fully_connected import raise_fully_connected
from glow_nb.hlir.optimize.raise_gelu import raise_gelu
from glow_nb.hlir.optimize.raise_layer_normalization import raise_layer_normalization
from glow_nb.hlir.optimize.raise_leaky_relu import raise_leaky_relu
from glow_nb.hlir.optimize.raise_softmax import raise_softmax
from glow_nb.hlir.optimize.raise_swish import raise_swish
from glow_nb.hlir.optimize.simplify_arithmetic import simplify_arithmetic
from glow_nb.hlir.optimize.simplify_reductions import simplify_reductions
from glow_nb.hlir.optimize.sink_broadcasts import sink_broadcasts
from glow_nb.hlir.optimize.sink_channel_shuffles import sink_channel_shuffles
from glow_nb.hlir.optimize.sink_reshapes import sink_reshapes
from glow_nb.hlir.optimize.sink_scales import sink_scales
from glow_nb.hlir.optimize.sink_transposes import sink_transposes
from glow_nb.hlir.optimize.split_reductions import split_reductions
from glow_nb.hlir.optimize.transpose_weights import transpose_weights
from glow_nb.hlir.optimize.trim_windows import trim_windows
from glow_nb.hlir.passes import GRAPH_PASSES

__all__ = [
    "GRAPH_PASSES",
    "eliminate_common_nodes",
    "eliminate_dead_nodes",
    "eliminate_noops",
    "fold_batch_normalization",
    "fold_constants",
    "fold_pads",
    "fold_scales_into_next_convolution",
    "fold_scales_into_products",
    "gathers_to_slices",
    "hoist_channel_gathers",
    "hoist_reshapes",
    "hoist_slices",
    "merge_clips",
    "merge_concats",
    "merge_conversions",
    "merge_products",
    "merge_slices",
    "raise_fully_connected",
    "raise_gelu",
    "raise_layer_normalization",
    "raise_leaky_relu",
    "raise_softmax",
    "raise_swish",
    "simplify_arithmetic",
    "simplify_reductions",
    "sink_broadcasts",
    "sink_channel_shuffles",
    "sink_reshapes",
    "sink_scales",
    "sink_transposes",
    "split_reductions",
    "transpose_weights",
    "trim_windows",
]
