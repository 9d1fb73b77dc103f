"""The explorer in a notebook: magics, the live widget, and the messages between the kernel and the page."""
