"""What ranks find and measure in their steps for a person, for both frameworks."""
