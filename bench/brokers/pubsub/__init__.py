"""Pub/Sub for tests: a fake of our own that speaks its gRPC, and can be broken on request."""
