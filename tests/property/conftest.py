"""What all property tests share: graphs are small, and threads share their kernels all the same."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def kernels_are_shared(sharing_is_free: None) -> None:
    """Let threads share the kernels of small graphs."""
