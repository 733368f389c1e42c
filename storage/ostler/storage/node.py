"""The node: the machine whose processes and files a row speaks of. There is one today, and one daemon on it."""

from typing import Final, NewType

Node = NewType("Node", str)

ONLY_NODE: Final = Node("1")
