"""The version of Egretta, in the one place that setup.cfg and every manifest read it from."""

__version__ = "0.1.0"
