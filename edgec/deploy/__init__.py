"""From a compiled model to a project folder, an image and its figures, within limits."""
