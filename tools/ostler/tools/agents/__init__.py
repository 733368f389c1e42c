"""Agents: sessions that work for another one."""
