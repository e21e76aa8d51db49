"""One broker, one module. A connector is imported only when a configuration uses its kind."""
