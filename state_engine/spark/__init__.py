"""The only room that knows Spark: session, jars, routing, task runner, epoch driver, sources, sinks."""
