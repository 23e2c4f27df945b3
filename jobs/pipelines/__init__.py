"""Pipelines: the order of kernels and networks that turns one kind of batch into another."""
