"""Dataclasses whose methods are compiled when they are first called: nobody can tell them from others."""

import subprocess
import sys

import pytest

PROGRAM = """
import copy, dataclasses, pickle, sys, types
from dataclasses import dataclass, field, FrozenInstanceError

compiled = []
create = dataclasses.__dict__.get("_create_fn")
if create is not None:
    def noted(name, *rest, **named):
        compiled.append(name)
        return create(name, *rest, **named)
    noted.__module__ = "dataclasses"
    dataclasses._create_fn = noted
if {defer}:
    from ostler.protocol.deferred_methods import defer_methods
    defer_methods()
    defer_methods()

text = '''
from dataclasses import dataclass, field
@dataclass(frozen=True, slots=True)
class Horse:
    name: str
    legs: int = 4
    tags: list[str] = field(default_factory=list, hash=False)
@dataclass(frozen=True, slots=True)
class Mare(Horse):
    foals: int = 0
@dataclass(order=True)
class Box:
    number: int
    self: str = "straw"
    def __post_init__(self) -> None:
        self.seen = self.number
class Wide(Box):
    def __init__(self, number: int) -> None:
        super().__init__(number, "hay")
'''
module = types.ModuleType("ostler.stable")
sys.modules["ostler.stable"] = module
exec(compile(text, "stable", "exec"), vars(module))
from_others = dataclasses.make_dataclass("Other", ["a"])
before = len(compiled)
Horse, Mare, Box, Wide = module.Horse, module.Mare, module.Box, module.Wide

def fail(action):
    try:
        action()
    except Exception as error:
        return type(error).__name__, str(error)

horse = Horse("Fury")
print(horse, Mare("Flicka", foals=2), Box(3), from_others(1))
print(horse == Horse("Fury"), horse == Horse("Flicka"), horse == Mare("Fury"), hash(horse) == hash(Horse("Fury")))
print(fail(lambda: setattr(horse, "name", "x")), fail(lambda: delattr(horse, "name")), fail(lambda: Horse()))
print(fail(lambda: Horse("a", 4, [], 5)), fail(lambda: Horse(nonsense=1)))
print(dataclasses.replace(horse, legs=3), dataclasses.asdict(horse), [f.name for f in dataclasses.fields(Mare)])
print(pickle.loads(pickle.dumps(horse)), copy.deepcopy(Mare("a")), copy.copy(Box(2)))
print(Wide(7), Wide(7).seen, Box(1) < Box(2), sorted([Box(2), Box(1)]), Horse.__match_args__)
print(Horse.__init__.__qualname__, Horse.__eq__.__qualname__, {{Horse("a"): 1}}[Horse("a")])
print("compiled before", before, "deferred" if {defer} else "", file=sys.stderr)
print("described as", Horse.__doc__, from_others.__doc__, file=sys.stderr)
"""


def run_program(*, defer: bool) -> subprocess.CompletedProcess[str]:
    code = PROGRAM.format(defer=defer)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)


def test_it_does_the_same_as_one_that_is_compiled_at_once() -> None:
    at_once, deferred = run_program(defer=False), run_program(defer=True)
    assert deferred.stdout == at_once.stdout
    assert "Horse(name='Fury', legs=4, tags=[])" in at_once.stdout


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there the methods of a class are compiled together")
def test_nothing_of_ours_is_compiled_before_it_is_called() -> None:
    assert "compiled before 0" not in run_program(defer=False).stderr
    # Those of the other class, which is not ours: it has two fields less and as many methods.
    assert "compiled before 3 deferred" in run_program(defer=True).stderr
    # A signature is worked out for each class that has no docstring; that of one that is not compiled is not true.
    assert "described as Horse(name: str, " in run_program(defer=False).stderr
    assert "described as Horse Other(a: " in run_program(defer=True).stderr
