"""How long a stream stands still after a kill."""
