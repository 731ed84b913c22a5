"""The precision of a network's computation, reported while its precision is lowered."""

from __future__ import annotations

from glow_nb.backends import Backend
from glow_nb.base.passes import Observer, PassRun
from glow_nb.base.precision import FULL, PrecisionReport
from glow_nb.base.types import ElementKind
from glow_nb.hlir.optimize.lower_precision import lower_precision
from glow_nb.hlir.precision import precisions_of


class HeardPrecision:
    """An observer that takes note of the graph whose precision is lowered.

    Attributes:
        report: The precision of its layers.
    """

    def __init__(self, backend: Backend, observer: Observer | None) -> None:
        """Listen to compilations for *backend*, and pass all reports to *observer*."""
        self._backend, self._observer = backend, observer
        self.report = PrecisionReport(backend.precision)

    def __call__(self, run: PassRun, /) -> None:
        """Take note of *run*."""
        if run.name == lower_precision.__name__:
            backend = self._backend
            layers = precisions_of(
                run.before, backend.keep, kind=ElementKind(backend.precision), must_fit=False
            )
            self.report = PrecisionReport(backend.precision, layers)
        if self._observer is not None:
            self._observer(run)


def heard(backend: Backend, observer: Observer | None) -> HeardPrecision | None:
    """Return what listens if *backend* computes in fewer bits, None if it does not."""
    return None if backend.precision == FULL else HeardPrecision(backend, observer)
