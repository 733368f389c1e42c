"""How agents ended, as it is stored: for the calls that wait for them, also after a crash."""
