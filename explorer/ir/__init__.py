"""The data classes of all artifacts, one a file, each with its printer. What makes them is in the stages' folders."""
