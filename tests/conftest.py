"""What every test shares: hypothesis profiles and a cache folder that is not the user's."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# The default run repeats the same examples, so that a failure is the fault of the change at hand;
# the slow profile looks for new ones. Compiling takes longer than hypothesis's deadline allows.
_SUPPRESSED = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "default",
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SUPPRESSED,
)
settings.register_profile(
    "slow", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SUPPRESSED
)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled kernels beside pytest's own cache: reruns are fast, the user's stays clean.

    A script that runs the tests in the background makes them, and every program they start, deaf to
    SIGINT; some tests send it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cache: pytest.Cache | None = getattr(config, "cache", None)  # absent with -p no:cacheprovider
    if cache is not None:
        os.environ.setdefault("GLOW_NB_CACHE_DIR", str(cache.mkdir("glow_nb_kernels")))
