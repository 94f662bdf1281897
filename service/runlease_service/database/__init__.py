"""Where records are kept: the seam that the executor asks, and what lies behind it."""
