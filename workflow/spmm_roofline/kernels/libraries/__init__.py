"""Libraries behind the call contract of our own kernels; each vendor's module has its head in the docstring."""
