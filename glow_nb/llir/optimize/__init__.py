"""The instruction passes of this level, one file each, named like the pass."""
