"""What the horses get."""

EVENING_FEED = "hay"


def feed(horse: str) -> str:
    """One line for the ostler's slate."""
    return f"{horse}: a bucket of {EVENING_FEED}"


if __name__ == "__main__":
    print(feed("grey mare"))
