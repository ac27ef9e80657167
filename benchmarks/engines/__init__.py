"""The contenders: what runs a case, and the functions that they run; only an engine's own process imports them."""
