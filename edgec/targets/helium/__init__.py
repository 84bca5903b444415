"""Helium (MVE): vectors of 128 bits."""
