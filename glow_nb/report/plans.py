"""The candidates for each product of a network, as its selection weighed them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from glow_nb.base.errors import GlowError
from glow_nb.hlir.graph import Function
from glow_nb.report.data import Alternative

PLANNER = "select_packed_operators"
"""The pass of the cpu backend that chooses how products are computed."""

Alternatives = Mapping[str, tuple[Alternative, ...]]
"""The candidates of each layer by its name in the model."""


def alternatives_of(function: Function, options: Mapping[str, Any]) -> Alternatives:
    """Return the candidates of all products of *function*, which the pass gets next.

    *options* are those of the pass. Where it cannot tell, as without numbers of weights, there are
    none.
    """
    from glow_nb.backends.cpu.algorithms.explain import explain
    from glow_nb.backends.cpu.options import CpuOptions
    from glow_nb.kernels.target import Target

    names = ("winograd", "strassen", "constant_growth", "plan", "cost_model")
    chosen = CpuOptions(**{name: options[name] for name in names if name in options})
    target, threads = options.get("target") or Target.host(), options.get("threads", 1)
    try:
        table = explain(
            function,
            target,
            chosen,
            threads=threads,
            is_whole=options.get("is_whole", True),
        )
    except GlowError:
        return {}
    return {
        name: tuple(
            Alternative(
                str(each.candidate.plan),
                each.candidate.cycles if math.isfinite(each.candidate.cycles) else 0.0,
                each.is_chosen,
                each.note,
            )
            for each in layer.weighed
        )
        for name, layer in table.items()
    }
