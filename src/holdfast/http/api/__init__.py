"""The engine's own routes: jobs, live events, ops, health."""
