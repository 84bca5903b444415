"""What all targets share: plain loops, and facts of nests that rules ask for."""
