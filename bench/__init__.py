"""What is measured, side by side in one run: these machines are noisy, so ratios count."""
