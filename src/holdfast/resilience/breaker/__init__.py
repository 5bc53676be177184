"""The circuit breaker in three parts: its moves, its counting, and the lock around both."""
