"""Other programs that read Kafka, each in a virtual environment of its own: what they do with the same topic.

A peer's module runs in the peer's environment, which has msgspec and nothing of ours, so it imports only
`bench.kafka.sides`.
"""
