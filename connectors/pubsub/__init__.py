"""The stream kind `pubsub`."""
