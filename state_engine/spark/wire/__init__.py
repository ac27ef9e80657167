"""What crosses between the driver, Spark and the workers: names, schemas, control rows, tasks, and failures."""
