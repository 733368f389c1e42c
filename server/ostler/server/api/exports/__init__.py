"""What leaves the daemon as a file: sessions, stored results, and the changes of a session as patches."""
