"""Print a generated part of the documentation: ``python -m website NAME``."""

from __future__ import annotations

import argparse
import sys

from website.generated import PARTS


def main() -> None:
    """Print the part that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m website", description=__doc__)
    parser.add_argument("name", choices=sorted(PARTS), help="the part")
    sys.stdout.write(PARTS[parser.parse_args().name]())


if __name__ == "__main__":
    main()
