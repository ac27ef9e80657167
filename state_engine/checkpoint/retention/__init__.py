"""What is deleted, and what is kept for whom: decided at one look, done in steps that may end anywhere."""
