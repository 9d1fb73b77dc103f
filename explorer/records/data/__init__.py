"""What records and views hold beside the record itself, as plain data, and what torch's texts about a compile say."""
