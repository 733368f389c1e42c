"""Why the calls of a turn are stopped: in their results "before it was finished", or started, follows each of these."""

from typing import Final

BY_PERSON: Final = "Interrupted by the person"
BY_TIME_LIMIT: Final = "Stopped by the turn's time limit"
BY_REFUSAL: Final = "Stopped, since the person said no to another call and so ended the turn,"
BY_HOOK: Final = "Stopped, since a hook said no to another call and so ended the turn,"
BY_DELETION: Final = "Stopped, since the session is being deleted,"
BY_MISSING_SANDBOX: Final = "Stopped, since the sandbox that commands must run in is missing,"
