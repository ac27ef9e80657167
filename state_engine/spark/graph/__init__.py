"""What an author builds: streams, operators and sinks, as a graph that runs nothing."""
