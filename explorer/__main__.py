"""`python -m explorer` is the command `explorer`."""

from explorer.show.cli import main

main(prog_name="explorer")
