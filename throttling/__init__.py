"""Bandwidth as a resource: site model, planner, pacer. Imports nothing of the other rooms."""
