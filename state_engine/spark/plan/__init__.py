"""From the graph to one Spark job per epoch."""
