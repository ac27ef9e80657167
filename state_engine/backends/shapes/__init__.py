"""The tables of the four shapes of state: values, lists, maps and timers, by entry and by columns."""
