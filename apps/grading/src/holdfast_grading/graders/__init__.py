"""What turns a submission into scores and feedback."""
