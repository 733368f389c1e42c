"""Providers of web searches, all behind one interface."""
