"""What the kernels of bilinear algorithms share: those of Winograd and of Strassen."""
