"""Simulated events, written in the formats of the detector."""
