"""Child processes that read PDFs, so that no file can harm the server.

A child is a fresh interpreter in a session of its own. It has loaded all it needs before it is
handed anything, and then gives up what it does not need any more: it cannot open a file, make a
socket, start a process or run a program, and its memory and computing time are bounded. For each
file it gets two open descriptors, the PDF and an empty file for the XML, and says afterwards in one
short message how it went. The parent believes nothing of that without looking. Whatever becomes of
a child, killed by a limit, by the kernel or by the file, is an answer to that one request.
"""
