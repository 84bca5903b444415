"""Stage 6: where every buffer lives, proven by a certificate and checked by a plain checker."""
