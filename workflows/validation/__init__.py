"""Tracks against truth, by the definitions of the field."""
