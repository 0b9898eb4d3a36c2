"""What the host gives: files written whole or not at all, progress, threads."""
