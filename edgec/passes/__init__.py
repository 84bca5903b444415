"""Graph to graph, one pass per file."""
