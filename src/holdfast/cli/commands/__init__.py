"""One module per group of commands. `APPS` of each are the typer applications that it adds.

These modules are imported for the help too, so they import stores, apps and servers only where a
command needs them.
"""

ABOUT = "The reliability layer for Python work that must finish."
COMMANDS = {
    "serve": "run",
    "worker": "run",
    "relay": "run",
    "tour": "run",
    "jobs": "jobs",
    "dead": "dead",
    "outbox": "outbox",
    "dlq": "dlq",
    "owners": "owners",
    "erase": "erase",
    "downstream": "downstream",
    "queues": "fleet",
    "kinds": "fleet",
    "workers": "fleet",
    "periodic": "periodic",
    "intake": "intake",
    "top": "top",
    "doctor": "doctor",
    "migrate": "migrate",
    "keys": "keys",
    "backup": "backup",
    "restore": "backup",
}
"""The commands in the order of the help, and the module here that declares each."""
