"""Run a handler in a child process with limits, for work that is CPU-bound or not to be trusted.

A child is a fresh interpreter in a session of its own. It finds the kind by importing the module
that declares it, gets arguments as JSON text and answers with JSON text over a socket: nothing
that a child says is unpickled or evaluated here. Whatever becomes of it, killed by a limit, by the
kernel or by its own hand, is a failure of the attempt and never of the worker; and where the
worker dies, its children follow.
"""
