"""The explorer as a local server: a model is dropped on its page, and builds run live."""
