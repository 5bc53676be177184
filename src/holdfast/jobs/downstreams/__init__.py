"""The durable breaker record of a downstream, and the rules that move it.

Pure values and functions; both stores keep the record and apply the rules in their transactions.
"""
