"""What is stored at one moment: a repository for each noun. A reader gets a snapshot, and a unit of work a `Tx`."""

import sqlite3

from ostler.storage.node import ONLY_NODE, Node
from ostler.storage.repositories.asks import Asks
from ostler.storage.repositories.calls import Calls
from ostler.storage.repositories.clients import Clients
from ostler.storage.repositories.drafts import Drafts
from ostler.storage.repositories.events import Events
from ostler.storage.repositories.file_history import FileHistory
from ostler.storage.repositories.free_pages import FreePages
from ostler.storage.repositories.idempotency import IdempotencyKeys
from ostler.storage.repositories.messages import Messages
from ostler.storage.repositories.processes import Processes
from ostler.storage.repositories.results import Results
from ostler.storage.repositories.sessions import Sessions
from ostler.storage.repositories.states import States
from ostler.storage.repositories.steers import Steers
from ostler.storage.repositories.tasks import Tasks
from ostler.storage.repositories.todos import TodoLists
from ostler.storage.repositories.trust import Trust
from ostler.storage.repositories.turns import Turns
from ostler.storage.repositories.usage import UsageRows


class Snapshot:
    """The repositories over one connection; made once for a connection, and used for each transaction on it."""

    __slots__ = (
        "asks",
        "calls",
        "clients",
        "drafts",
        "events",
        "file_history",
        "free_pages",
        "idempotency",
        "messages",
        "processes",
        "results",
        "sessions",
        "states",
        "steers",
        "tasks",
        "todos",
        "trust",
        "turns",
        "usage",
    )

    def __init__(self, connection: sqlite3.Connection, node: Node = ONLY_NODE) -> None:
        self.asks = Asks(connection)
        self.calls = Calls(connection)
        self.clients = Clients(connection)
        self.drafts = Drafts(connection)
        self.file_history = FileHistory(connection)
        self.free_pages = FreePages(connection)
        self.idempotency = IdempotencyKeys(connection)
        self.processes = Processes(connection, node)
        self.results = Results(connection)
        self.states = States(connection)
        self.steers = Steers(connection)
        self.tasks = Tasks(connection, node)
        self.todos = TodoLists(connection)
        self.trust = Trust(connection)
        self.turns = Turns(connection)
        self.usage = UsageRows(connection)
        self.messages = Messages(connection, self.calls)
        self.sessions = Sessions(connection, self.file_history, self.results)
        self.events = Events(connection, self.asks, self.calls, self.messages, self.turns)
