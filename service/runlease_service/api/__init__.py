"""The HTTP surface: one module per resource, two doors, and one place that knows problems."""
