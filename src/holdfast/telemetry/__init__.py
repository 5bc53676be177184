"""How what happens is shown outside: logs, metrics and traces."""
