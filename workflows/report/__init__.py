"""The campaign as one HTML page."""
