"""The stream kind `sqs`."""
