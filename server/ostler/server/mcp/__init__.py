"""Servers that speak the Model Context Protocol: what their entries say, and the way to them.

The library for it is loaded when the first of them is needed: it takes most of a second.
"""
