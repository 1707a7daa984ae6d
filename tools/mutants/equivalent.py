"""Automatic faults that nobody can notice: which name, what the line then is, and why.

The line is there because names count places: code that moves may give a name to another fault.
"""

from __future__ import annotations

NEVER_BELOW = "`uncut` was never below it: every ninth size of 103 to 391, 0, 5 and 20 % corrupt"

EQUIVALENT: dict[str, tuple[str, str]] = {
    "budget.py Budget.charge compare 1": (
        "if (max(after)) >= (self.epsilon * (1 + TOLERANCE)):",
        "differs only where a sum is the budget and its tolerance to the last bit",
    ),
    "checks.py _can_be_moments constant 6": (
        "if not diagonal.min(initial=0.0) >= (-1.0):",
        "a negative diagonal entry has no Cholesky factor either",
    ),
    "gaussian.py _exact_head compare 1": (
        "return (Decimal(word << 192 | more)) <= (chance * Decimal(1 << 256))",
        "no power of e but e^0 is a fraction of integers",
    ),
    "gaussian.py _heads compare 1": (
        "heads: Booleans = (uniform) <= (chance)",
        "equal numbers are a tie, which exact arithmetic decides",
    ),
    "gaussian.py _heads compare 2": (
        "for i in np.flatnonzero((np.abs(uniform - chance)) <= (TIE)):",
        "at the bound of a tie both ways of deciding agree",
    ),
    "gaussian.py concentrated_delta constant 18": (
        "left, right = low + (high - low) / 3, high - (high - low) / (2)",
        "any two points within the bracket narrow it down to the same minimum",
    ),
    "gaussian.py discrete_laplace constant 4": (
        "drawn, n_drawn = [np.empty(0, dtype=np.int64)], (-1)",
        "one number more is drawn, and cut off",
    ),
    "graph.py _falls_apart constant 5": (
        "return n_clients**2 / (3) * runs",
        "decides in no round computed: every ninth size of 103 to 391, 0, 5 and 20 % corrupt",
    ),
    "graph.py degree constant 12": (
        "t = max((k + (0) + c) // 2 + 1, uncut(n_clients, n_corrupt, k))",
        NEVER_BELOW,
    ),
    "graph.py degree constant 16": (
        "t = max((k + 1 + c) // 2 + (0), uncut(n_clients, n_corrupt, k))",
        NEVER_BELOW,
    ),
    "ring.py _bit_length compare 2": (
        "n_bits -= (x >> (np.maximum(n_bits, _ONE) - _ONE) == 0) & ((x) == (0))",
        "a number that is rounded up to a power of two is so with a bit less, too, and 0 stays 0",
    ),
    "ring.py encode constant 11": (
        "carry = low >= (3.0)**64",
        "a float64 below 1 is at most 1 - 2^-53: its lower limb does not reach 2^64",
    ),
    "server_journal.py Journal.begin constant 4": (
        "number, known = found[-(0)]",
        "there is never more than one: an unfinished attempt at a round is returned, not followed",
    ),
    "solve.py singular_error constant 6": (
        "F, largest = len(eigenvalues), max(float(eigenvalues[-1]), (-1.0))",
        "the largest eigenvalue of a matrix of moments is not below 0 but by rounding",
    ),
    "training.py FederatedTraining.client_updates constant 2": (
        "learning_rate=self.steps.learning_rate * self.schedule.factor(clients[(-1)][1].round),",
        "all of a group are of one round",
    ),
    "training.py one_set constant 2": (
        "if len(pieces) == (0):",
        "one piece joined to none is that piece",
    ),
}
