"""The three queue brokers: what Headrace costs beside a bare loop with the same client."""
