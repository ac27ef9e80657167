"""A shop that reminds of unpaid orders: an endless stream, a job with event-time timers, a batch recomputation."""
