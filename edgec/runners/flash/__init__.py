"""Ways to get a program into a board's flash: one file per tool. Start at `runner.py`."""
