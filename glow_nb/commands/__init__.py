"""The command line: one file a command, and what commands share.

It may import all others.
"""
