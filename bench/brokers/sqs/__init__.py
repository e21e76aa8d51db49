"""SQS for tests: what speaks its protocol on this machine, and a proxy in front of it that makes mistakes."""
