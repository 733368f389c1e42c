"""TestingPermission: always asks, so that tests have something to answer."""

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.tool import AskFirst, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block


class TestingPermissionInput(ToolInput):
    """Nothing."""


class TestingPermissionOutput(ToolOutput):
    """A fixed line."""

    message: str


class TestingPermission(Tool[TestingPermissionInput, TestingPermissionOutput]):
    """Asks a person, then says that it ran."""

    name = "TestingPermission"
    Input = TestingPermissionInput
    Output = TestingPermissionOutput
    title = "Asks for permission, for tests"
    only_reads = True

    def is_enabled(self, session: SessionView) -> bool:
        return session.config.testing

    def is_concurrency_safe(self, given: TestingPermissionInput) -> bool:
        return True

    def summary(self, given: TestingPermissionInput) -> str:
        return "Run a test of the permission"

    async def check_permission(self, given: TestingPermissionInput, context: ToolContext) -> Check:
        return AskFirst("Run test?")

    async def run(
        self, given: TestingPermissionInput, context: ToolContext
    ) -> ToolResult[TestingPermissionOutput] | Failure:
        return ToolResult(TestingPermissionOutput(message="The test ran."))

    def render(self, output: TestingPermissionOutput) -> list[Block]:
        return [text_block(output.message)]
