"""Drop nodes that nothing reads."""

from __future__ import annotations

from glow_nb.hlir.graph import Function
from glow_nb.hlir.live import with_live_nodes
from glow_nb.hlir.passes import register_pass


@register_pass
def eliminate_dead_nodes(function: Function) -> Function:
    """Drop nodes without side effects whose results are not read.

    ::

        %a = relu(%x)        ->
        %b = tanh(%x)            %b = tanh(%x)
        %s = save(%b, %y)        %s = save(%b, %y)
    """
    return with_live_nodes(function)
