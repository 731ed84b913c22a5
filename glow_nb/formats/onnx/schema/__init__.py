"""What the standard says: definitions of operators, element kinds, sizes of outputs.

It imports `hlir` and what stands below that.
"""
