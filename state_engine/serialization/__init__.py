"""Type information to Arrow and Delta, and columns to Python objects."""
