"""Detector files as batches, streamed."""
