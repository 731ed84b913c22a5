"""The algorithms for products, one a module; importing this package completes their table."""

from __future__ import annotations

from glow_nb.backends.cpu.algorithms.algorithm import (
    ALGORITHMS,
    Algorithm,
    Candidate,
    algorithm_of,
    register_algorithm,
)
from glow_nb.backends.cpu.algorithms.channel_wise import ChannelWise, Depthwise
from glow_nb.backends.cpu.algorithms.direct import Direct
from glow_nb.backends.cpu.algorithms.paired import Paired
from glow_nb.backends.cpu.algorithms.problem import Problem
from glow_nb.backends.cpu.algorithms.strassen import Strassen
from glow_nb.backends.cpu.algorithms.unpacked import Unpacked
from glow_nb.backends.cpu.algorithms.winograd import Winograd

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Candidate",
    "ChannelWise",
    "Depthwise",
    "Direct",
    "Paired",
    "Problem",
    "Strassen",
    "Unpacked",
    "Winograd",
    "algorithm_of",
    "register_algorithm",
]
