"""The exactly-once sink that writes to Kafka."""
