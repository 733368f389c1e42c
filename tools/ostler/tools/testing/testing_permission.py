"""TestingPermission: always asks, so that tests have something to answer."""

from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.tool import AskFirst, Block, Check, Failure, Ran, Tool, ToolInput, ToolOutput, text_block


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

    def is_enabled(self, surroundings: Surroundings) -> bool:
        return surroundings.testing

    def is_concurrency_safe(self, given: TestingPermissionInput) -> bool:
        return True

    def summary(self, given: TestingPermissionInput) -> str:
        return "Run a test of the permission"

    async def check_permission(self, given: TestingPermissionInput, context: ToolContext) -> Check:
        return AskFirst("Run test?")

    async def run(self, given: TestingPermissionInput, context: ToolContext) -> Ran[TestingPermissionOutput] | Failure:
        return Ran(TestingPermissionOutput(message="The test ran."))

    def render(self, output: TestingPermissionOutput) -> list[Block]:
        return [text_block(output.message)]
