import unittest

from stable import feed


class StableTest(unittest.TestCase):
    def test_the_grey_mare_gets_oats(self) -> None:
        self.assertEqual(feed("grey mare"), "grey mare: a bucket of oats")


if __name__ == "__main__":
    unittest.main()
