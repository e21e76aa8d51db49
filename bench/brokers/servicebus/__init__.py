"""Service Bus for tests, benchmarks and people: fixtures.py says how tests use it.

What serves by default is an emulator of ours (emulator/), which is NOT Service Bus; control.py breaks it.
"""
