"""The stream kind `servicebus`."""
