"""The host's end of the serial link: frames, retries, transports. See docs/serial_protocol.md."""
