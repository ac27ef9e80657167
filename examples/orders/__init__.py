"""A shop that sends reminders for unpaid orders: an endless stream, a job with event-time timers, a batch version."""
