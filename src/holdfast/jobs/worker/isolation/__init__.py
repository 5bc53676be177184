"""Run handlers with `isolation="process"` in child processes.

A child imports the module that declares the kind, gets arguments as JSON text and answers with JSON
text. Whatever ends a child, a limit, the kernel or the handler itself, is a failure of the attempt
and never of the worker.
"""
