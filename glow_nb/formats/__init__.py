"""Files of other programs: models to graphs, and graphs to models.

It imports `hlir` and what stands below that, and nothing of instructions.
"""
