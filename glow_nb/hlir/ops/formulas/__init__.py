"""What several operators are composed of, said once: for `evaluate`, lowerings and gradients.

They stand among the operators, which they emit, and which are defined by them.
"""
