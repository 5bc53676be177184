"""What turns a submission into scores and feedback.

`grade` makes no second try: its callers have a policy for that. A text is graded by the
language model that is set up, or offline. Speech is fetched, decoded and transcribed first.
"""
