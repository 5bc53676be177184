"""From bytes to text: HTML, PDF and DOCX in child processes with limits, plain text here."""
