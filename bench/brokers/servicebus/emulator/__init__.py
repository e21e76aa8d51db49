"""A small Service Bus of ours, as one process: `python -m bench.brokers.servicebus.emulator PORT CONTROL_PORT`.

It is written from the AMQP 1.0 specification, from what the public client sends and expects, and from Microsoft's
pages. It is NOT Service Bus: where we misunderstood the service, it misunderstands it in the same way, so a test that
passes here says that Headrace and the client agree with our reading, no more.

AMQP itself (frames, credit, settlement) is Qpid Proton's; values.py, reading.py and writing.py only read and write
messages, so that bodies pass through as the bytes they are. queue.py and sessions.py are pure state, with `now` as an
argument. connection.py holds the sockets, links.py and settlement.py say what comes in and goes out, pairs.py serves
`$cbs` and `$management`, commands.py is the port by which tests break things.
"""
