"""`python -m edgec`: the command line, where the script `edgec` is not on PATH."""

from edgec.cli.main import main

if __name__ == "__main__":
    main()
