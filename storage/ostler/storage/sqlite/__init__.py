"""The SQLite database: its one writer, its readers, migrations and checks."""
