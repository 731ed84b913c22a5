"""``python -m glow_nb`` is ``glow-nb``."""

from glow_nb.cli import main

if __name__ == "__main__":
    main()
