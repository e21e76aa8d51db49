"""Kafka: a real broker, a preloaded topic, and the same work done by a bare aiokafka loop beside it."""
