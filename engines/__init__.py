"""Inference behind one protocol, the model files, and how they were trained."""
