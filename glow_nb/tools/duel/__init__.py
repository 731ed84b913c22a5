"""Engines side by side: the same model, asked in turn, in one run.

Speed is a ratio, never a lone time: each engine lives in a process of its own and is asked in turn
(A B C A B C ...), so that a machine whose speed drifts slows all of them alike.
"""
