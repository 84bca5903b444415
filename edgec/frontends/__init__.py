"""Foreign model files to graph IR; the only place that imports their formats."""
