"""What fills a model's window, counted and made smaller: without a session, a disk or a model."""
