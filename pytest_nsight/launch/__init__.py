"""Starts workers, one run after the other or several at once, and brings home what they leave behind."""
