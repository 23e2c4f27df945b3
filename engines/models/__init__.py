"""Model files shipped with Egretta, each with its model card."""
