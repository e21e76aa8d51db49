"""For all tests: brokers that start when a test asks for one, and a report of which they were."""

pytest_plugins = ("bench.brokers.report", "bench.brokers.fixtures")
