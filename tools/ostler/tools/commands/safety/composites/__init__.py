"""Lines with loops, conditions and substitutions that only read: taken apart, unrolled, and written anew."""
