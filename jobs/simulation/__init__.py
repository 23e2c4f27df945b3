"""A VELO event generator: primary and displaced vertices, tracks through the modules, pixels, truth."""
