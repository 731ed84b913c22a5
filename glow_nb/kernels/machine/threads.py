"""The cost of calls, barriers and threads, which decides how many threads share a call."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import fact

_SHARING = (
    "Zen 5: experiments/benchmarks/sharing.py. Of the kernels of 24 networks that take 0.1 to 20 "
    "us, four of five take 0.75 to 1.7 times what is estimated."
)


@dataclass(frozen=True, kw_only=True)
class Threads:
    """Nanoseconds of calls and of sharing them; each one is explained by its fact."""

    call_ns: float = fact(
        50.0, "ns", "Any call of a kernel: what threads that share it do not shorten.", _SHARING
    )
    multiply_add_ns: float = fact(0.14, "ns", "A vector of multiply-adds.", _SHARING)
    other_ns: float = fact(0.32, "ns", "A vector of any other operations.", _SHARING)
    byte_ns: float = fact(
        0.0045, "ns", "A byte that is read or written, mostly from the caches of a core.", _SHARING
    )
    barrier_ns: float = fact(
        100.0,
        "ns",
        "A barrier: half of it for two threads, the transfer between cores the rest.",
        _SHARING,
    )
    barrier_thread_ns: float = fact(50.0, "ns", "A barrier, more for each thread.", _SHARING)
    start_ns: float = fact(
        1500.0, "ns", "The start of threads: the system takes so long to wake one.", _SHARING
    )
