"""What is durable: run requests, dead letters, attempts, run keys, and who is running. One writer, group commit."""
