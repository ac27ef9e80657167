"""What a function holds of a state that it asks record by record."""
