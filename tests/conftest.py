"""For all tests: brokers that start when a test asks for one, and a report of which they were.

No example of a property has a deadline: on a busy machine it would only tell how busy it is.
"""

from hypothesis import settings

pytest_plugins = (
    "bench.brokers.report",
    "bench.brokers.fixtures",
    "bench.brokers.sqs.fixtures",
    "bench.brokers.pubsub.fixtures",
    "bench.brokers.servicebus.fixtures",
)

settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")
