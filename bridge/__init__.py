"""Headrace: carries messages from brokers to orchestrators. One message, one run; nothing lost."""
