"""Finds, rewrites and proves CUDA-graph memory-lifetime hazards in the source of inference engines."""

__version__ = "0.1.0"
