"""Text, JSON and HTML reports."""
