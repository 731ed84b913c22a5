"""The kernels of recurrent layers: loops over steps, forwards and backwards."""
