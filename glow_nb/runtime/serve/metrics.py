"""What the host and the server count, as Prometheus reads it.

Labels are names of models and devices that there are, batch sizes and statuses: few, whatever
clients send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from typing_extensions import override

from glow_nb.runtime.hosting.statistics import (
    BUCKETS,
    DeviceStatistics,
    Histogram,
    NetworkCounters,
    NetworkStatistics,
)
from glow_nb.runtime.serve.body_memory import BodyMemory
from glow_nb.runtime.serve.guard import Guard
from glow_nb.runtime.serve.model_server import ModelServer

MODEL = ("model", "version")
Models = Mapping[tuple[str, str], NetworkStatistics]

OUTCOMES: Mapping[str, Callable[[NetworkCounters], int]] = {
    "answered": lambda counters: counters.answered,
    "failed": lambda counters: counters.failed,
    "cancelled": lambda counters: counters.cancelled,
    "refused": lambda counters: counters.refused,
}


class Metrics(Collector):
    """The metrics of a server, made at first use."""

    def __init__(self, models: ModelServer, guard: Guard, bodies: BodyMemory) -> None:
        """Show what *models*, *guard* and *bodies* count."""
        self._models, self._guard, self._bodies = models, guard, bodies
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    @override
    def collect(self) -> Iterable[Metric]:
        """Return all metrics as they are now."""
        statistics = self._models.host.statistics()
        models = {
            (name, version): statistics.networks[model.network]
            for name, versions in self._models.served.items()
            for version, model in versions.items()
            if model.network in statistics.networks
        }
        yield from _of_models(models)
        yield from _of_devices(statistics.devices)
        yield from _of_http(self._guard)
        yield GaugeMetricFamily(
            "glow_http_body_bytes",
            "Memory for the bodies of requests in flight.",
            self._bodies.used_bytes,
        )


def _of_models(models: Models) -> Iterator[Metric]:
    outcomes = CounterMetricFamily(
        "glow_requests", "Requests by what became of them.", labels=(*MODEL, "outcome")
    )
    late = CounterMetricFamily(
        "glow_requests_late", "Failed requests that were not answered in time.", labels=MODEL
    )
    retried = CounterMetricFamily(
        "glow_runs_retried", "Runs done again as their device was lost.", labels=MODEL
    )
    queued = GaugeMetricFamily("glow_requests_queued", "Requests that wait.", labels=MODEL)
    running = GaugeMetricFamily("glow_requests_running", "Requests on devices.", labels=MODEL)
    batches = CounterMetricFamily(
        "glow_batches", "Runs by the size of their batch.", labels=(*MODEL, "size")
    )
    for labels, statistics in models.items():
        counters = statistics.counters
        for outcome, count in OUTCOMES.items():
            outcomes.add_metric((*labels, outcome), count(counters))
        late.add_metric(labels, counters.late)
        retried.add_metric(labels, counters.retried)
        queued.add_metric(labels, statistics.queued)
        running.add_metric(labels, statistics.running)
        for size, count_of_size in sorted(counters.batches.items()):
            batches.add_metric((*labels, str(size)), count_of_size)
    yield from (outcomes, late, retried, queued, running, batches)
    yield _histograms(
        "glow_request_seconds",
        "From the submission of a request to its answer.",
        {labels: statistics.counters.latency for labels, statistics in models.items()},
    )
    yield _histograms(
        "glow_queue_seconds",
        "What requests waited for a device.",
        {labels: statistics.counters.waiting for labels, statistics in models.items()},
    )


def _histograms(
    name: str, help: str, histograms: Mapping[tuple[str, str], Histogram]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, help, labels=MODEL)
    for labels, histogram in histograms.items():
        buckets, total = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), histogram.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family.add_metric(labels, buckets, histogram.total)
    return family


def _of_devices(devices: Mapping[str, DeviceStatistics]) -> Iterator[Metric]:
    device = ("device",)
    alive = GaugeMetricFamily("glow_device_alive", "1 if the device answers.", labels=device)
    used = GaugeMetricFamily(
        "glow_device_memory_used_bytes", "Memory of the networks on it.", labels=device
    )
    limit = GaugeMetricFamily(
        "glow_device_memory_limit_bytes", "What these may take.", labels=device
    )
    running = GaugeMetricFamily("glow_device_running", "Runs given to it.", labels=device)
    restarts = CounterMetricFamily("glow_device_restarts", "Times it came back.", labels=device)
    for name, statistics in devices.items():
        alive.add_metric((name,), statistics.alive)
        used.add_metric((name,), statistics.memory_used_bytes)
        limit.add_metric((name,), statistics.memory_bytes)
        running.add_metric((name,), statistics.running)
        restarts.add_metric((name,), statistics.restarts)
    yield from (alive, used, limit, running, restarts)


def _of_http(guard: Guard) -> Iterator[Metric]:
    responses = CounterMetricFamily(
        "glow_http_responses", "Responses over HTTP by status.", labels=("status",)
    )
    for status, count in sorted(guard.responses.items()):
        responses.add_metric((str(status),), count)
    yield responses
    yield GaugeMetricFamily(
        "glow_http_requests_in_flight", "Requests over HTTP in flight.", guard.in_flight
    )
