"""The service: HTTP on top, the executor below it, a database at the bottom."""
