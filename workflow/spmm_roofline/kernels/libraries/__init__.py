"""Libraries behind the call contract of this project's kernels; each adapter has its head in its docstring."""
