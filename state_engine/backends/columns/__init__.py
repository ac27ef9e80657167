"""What a function holds of a state that it asks with the keys of a batch."""
