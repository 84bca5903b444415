"""The serial link: frames, commands, client."""
