"""Files: what is read and written, and in which form."""
