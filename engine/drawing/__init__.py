"""Ticks of an axis, and pictures of curves as SVG, without Qt."""
