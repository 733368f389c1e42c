"""What a command line does to files: reads, writes, creates, moves, links and deletes."""
