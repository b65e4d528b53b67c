"""The pure scoring core: NumPy arrays in, numbers out."""
