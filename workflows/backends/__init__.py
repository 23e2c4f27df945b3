"""Where attempts run: one module a backend."""
