"""The log of the package: the logger ``glow_nb`` of the standard library.

It is silent unless the program sets up logging. As long as nobody has imported ``logging``, nobody
can listen, so that this module does not import it either: that takes longer than to find a network.
"""

from __future__ import annotations

import sys

DEBUG, INFO, WARNING = 10, 20, 30
"""The levels, as ``logging`` has them: what a step did; what took place; what is not as it should
be, and was made good."""

NAME = "glow_nb"


def log(level: int, message: str, *values: object) -> None:
    """Write *message*, formatted with *values* by ``%``, if the program has set up logging."""
    logging = sys.modules.get("logging")
    logger = logging.getLogger(NAME) if logging is not None else None
    if logger is not None and logger.hasHandlers():  # without any, errors go to standard error
        logger.log(level, message, *values, stacklevel=2)
