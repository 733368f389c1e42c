"""Tools that read the web: pages by their address, and searches."""
