"""The dashboard for operators: pages over every job, downstream and worker of one engine.

It is an ASGI app of its own that knows no path but the one it is mounted under: `create_app` mounts
it at `/ops`, and `ops_dashboard` is for an app of the user's own. Pages are rendered on the server
with the layout and the style of `pages`; every action is a form. Readers see them without forms,
and the server refuses their writes.
"""
