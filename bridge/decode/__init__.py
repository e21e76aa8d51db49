"""Bytes become an event, or a typed fault. Pure and total: no body, however made, gets past with an exception."""
