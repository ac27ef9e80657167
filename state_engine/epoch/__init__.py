"""The protocol of one epoch and of a start: plan, barriers and acks, seal, sink commit. No I/O, only ports."""
