"""The built-in gateway: a PDF to XML converter behind HTTP.

`reading` turns a PDF into XML, `reader_pool` runs that in limited processes, `server` puts it
behind HTTP, and `chaos` makes it misbehave on command. `python -m holdfast_conversion.gateway` runs
it.
"""
