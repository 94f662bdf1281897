"""The client that workers import."""
