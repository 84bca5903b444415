"""Float graph and samples to integer graph."""
