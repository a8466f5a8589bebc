"""cvc5, the second solver: an independent program, which gets Z3's questions as text."""

from importlib.util import find_spec

NAME = "cvc5"

# cvc5's own count of steps, a hundred times what the hardest question needs; a slow machine gives the same answers.
_SOLVER_STEPS = 100_000_000


def is_installed() -> bool:
    """Is it installed?"""
    return find_spec("cvc5") is not None


def answer(text: str) -> str:
    """Its answer to one question in SMT-LIB: sat or unsat, or the reason for none.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("rlimit-per", str(_SOLVER_STEPS))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "question")
    said = ""
    try:
        while not (command := parser.nextCommand()).isNull():
            said += command.invoke(solver, parser.getSymbolManager())
    except RuntimeError as error:  # what it cannot read
        return f"error: {error}"
    return said.strip()
