"""Pictures of a network: its memory, and its kernels under the limits of the machine.

It imports what `network` does, and matplotlib.
"""
