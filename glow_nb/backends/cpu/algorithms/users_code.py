"""The border to what users say about plans: cost models, and functions that choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.base.errors import OptionError, SettingError
from glow_nb.base.foreign import foreign


@contextmanager
def users_code(subject: str) -> Iterator[None]:
    """Run the body, which calls a function of a user on plans of any algorithm.

    Raises:
        OptionError: It raised something, or read a setting that a plan does not have; the
            *subject* says whose code it is.
    """
    with foreign(OptionError, subject):
        try:
            yield
        except SettingError as error:
            raise OptionError(
                f"{subject}: {error.reason}; test plan.algorithm, or plan.has(name), first"
            ) from error
