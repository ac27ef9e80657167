"""The contenders: modules that run a case, and their functions; only an engine's own process imports them."""
