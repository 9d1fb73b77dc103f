"""What shows records: text and pages, the notebook, the command line."""
