"""Answers as one HTML page each that loads nothing, runs nothing and has no links."""
