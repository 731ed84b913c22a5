"""A native program as a folder for C and C++: object code, a header, constants, an example.

It imports `codegen`, `kernels.target` and what stands below those; it compiles no kernel.
"""
