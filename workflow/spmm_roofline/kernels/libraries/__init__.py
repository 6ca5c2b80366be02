"""Vendor libraries behind the call contract of our own kernels; each module's docstring holds its head."""
