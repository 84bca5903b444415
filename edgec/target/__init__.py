"""What the code is built for: cores (instruction sets), boards (data) and compilers."""
