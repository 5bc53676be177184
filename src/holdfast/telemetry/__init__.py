"""How what happens is shown outside: the log of the commands."""
